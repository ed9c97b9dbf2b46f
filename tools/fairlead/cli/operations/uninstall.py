"""`fairlead uninstall`: remove Fairlead from a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.console import Console

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.common import texts
from fairlead.operations import uninstall as library


@click.command()
@options.cluster
@options.yes
@options.output
def command(target: registry.Target, yes: bool, output: str) -> None:
    """Remove every object that Fairlead created in a cluster, the webhooks first, and nothing else;
    safe to repeat.

    If the namespace holds other objects, it stays. To stop a cluster that `fairlead up` started,
    run `fairlead down`.
    """
    cluster = registry.find(target)
    options.ask(target, cluster, "uninstall from", confirmed=yes)
    with out.progress() as progress:
        removal = library.uninstall(cluster, progress=progress)
    out.emit(removal.objects, output, lambda console: _draw(removal.objects, console))
    if removal.remaining:
        out.note(f"the namespace stays, because it also holds: {', '.join(removal.remaining)}")
    if not removal.objects:
        out.note("there is nothing to remove: Fairlead is not in this cluster")


def _draw(objects: Sequence[Mapping[str, Any]], console: Console) -> None:
    """A line for each object, as `fairlead deploy` prints it."""
    for each in objects:
        outcome = "removed" if each["removed"] else "stays"
        line = f"{each['kind'].lower()}/{each['name']} {outcome}"
        console.print(texts.printable(line), soft_wrap=True)

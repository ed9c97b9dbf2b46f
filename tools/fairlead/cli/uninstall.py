"""`fairlead uninstall`: take Fairlead out of a cluster."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.operations import uninstall as library


@click.command()
@options.cluster
@options.yes
@options.output
def command(target: registry.Target, yes: bool, output: str) -> None:
    """Remove every object that Fairlead made in a cluster, the webhook first, and nothing else;
    safe to repeat.

    The namespace stays where it holds something else. `fairlead down` ends a cluster that `fairlead
    up` started.
    """
    cluster = registry.find(target)
    options.ask(target, cluster, "uninstall from", yes=yes)
    with out.progress() as progress:
        removal = library.uninstall(cluster, progress=progress)
    out.emit(
        removal.objects,
        output,
        out.rows(None, ("kind", "name", "namespace", "removed"), removal.objects),
    )
    if removal.left:
        out.note(f"the namespace stays, for what else is in it: {', '.join(removal.left)}")
    if not removal.objects:
        out.note("nothing of Fairlead is there")

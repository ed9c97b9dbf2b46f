"""`fairlead enable`: have OPA decide again after `fairlead disable`."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.operations.disable import show
from fairlead.clusters import registry
from fairlead.operations import disable as library


@click.command()
@click.option("--intent", help="Enable only the webhooks of this intent.  [default: all]")
@options.cluster
@options.output
def command(intent: str | None, target: registry.Target, output: str) -> None:
    """Have API servers ask OPA again, after `fairlead disable`.

    Pods that were created meanwhile stay where they run; `fairlead audit` lists them. Run
    `fairlead status` first: while OPA does not answer, pods of mapped namespaces are refused.
    """
    result = library.enable(registry.find(target), intent)
    show(result, output, "nothing was disabled")
    if result["changed"]:
        out.note("pods that were created meanwhile are not moved: `fairlead audit` lists them")

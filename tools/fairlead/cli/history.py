"""`fairlead history`: list the revisions of the policies that were in force."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.operations import history


@click.command()
@options.cluster
@options.output
def command(target: registry.Target, output: str) -> None:
    """List the last revisions that were in force, the latest first. `fairlead rollback REVISION`
    goes back to one.
    """
    lines = history.table(registry.find(target))
    out.emit(lines, output, out.rows(None, ("revision", "since", "current"), lines))

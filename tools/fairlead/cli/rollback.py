"""`fairlead rollback`: go back to an earlier revision of the policies."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.push import show
from fairlead.clusters import registry
from fairlead.operations import push


@click.command()
@click.argument("revision", required=False)
@options.cluster
@options.output
def command(revision: str | None, target: registry.Target, output: str) -> None:
    """Go back to REVISION, by default the previous one.

    `fairlead history` lists the revisions; the first digits suffice.
    """
    cluster = registry.find(target)
    with out.progress() as progress:
        result = push.rollback(cluster, revision, progress=progress)
    show(result, output)

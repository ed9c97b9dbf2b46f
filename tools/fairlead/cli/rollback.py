"""`fairlead rollback`: bring an earlier revision of the policies back."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.operations import push


@click.command()
@click.argument("revision", required=False)
@options.cluster
@options.output
def command(revision: str | None, target: registry.Target, output: str) -> None:
    """Bring REVISION (see `fairlead history`; its first digits suffice) back into force, by
    default the one before.
    """
    cluster = registry.find(target)
    with out.progress() as progress:
        result = push.rollback(cluster, revision, progress=progress)
    out.emit(
        result,
        output,
        out.rows(f"revision {result['revision']}", ("url", "revision"), result["opa"]),
    )

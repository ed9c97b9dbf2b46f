"""`fairlead down`: end a cluster."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.clusters.embedded.opas import EmbeddedCluster
from fairlead.clusters.kind import KindCluster
from fairlead.common.errors import UsageError


@click.command()
@options.cluster
def command(target: registry.Target) -> None:
    """End just what `fairlead up` started, and remove what it left; safe to repeat."""
    match registry.make(target):
        case EmbeddedCluster() as cluster:
            ended = cluster.down()
        case KindCluster() as cluster:
            ended = cluster.delete()
        case _:
            raise UsageError(
                "`fairlead up` did not start this cluster: `fairlead uninstall` removes what is in "
                "it"
            )
    name = target.name
    out.note(
        f"cluster {name!r} is down" if ended else f"no cluster {name!r} is here; nothing to do"
    )

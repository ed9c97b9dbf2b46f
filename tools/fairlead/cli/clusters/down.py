"""`fairlead down`: stop a local cluster and remove its state."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.clusters.kind import KindCluster
from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.operations import up


@click.command()
@options.cluster
def command(target: registry.Target) -> None:
    """Stop what `fairlead up` started, and remove its state; safe to repeat."""
    cluster = registry.make(target)
    match cluster:
        case EmbeddedCluster():
            with up.telling_fate(cluster):
                ended = cluster.down()
        case KindCluster():
            with up.telling_fate(cluster, unless=(UsageError,)):
                ended = cluster.delete()
        case _:
            raise UsageError(
                "`fairlead up` did not start this cluster: run `fairlead uninstall` to remove "
                "Fairlead from it"
            )
    if ended:
        out.note(f"{cluster.name} was removed")
        return
    out.note(
        f"there is no cluster {cluster.name!r} in {paths.shown(cluster.path.parent)}: nothing to "
        "do. Another installation of Fairlead ends its clusters itself"
    )

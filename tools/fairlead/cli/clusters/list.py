"""`fairlead list`: list the clusters that Fairlead created in this checkout."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.clusters.kind import KindCluster
from fairlead.common import durations, texts
from fairlead.common.errors import FairleadError


@click.command()
@options.output
def command(output: str) -> None:
    """List the clusters that `fairlead up` and other commands created in this checkout, with their
    kind, age and state.

    An embedded cluster that has ended without `fairlead down`, such as by a restart of this
    machine, is `ended`: `fairlead down --name NAME` removes what is left. A KIND cluster is
    `running` while its containers exist. Clusters of a context are not listed.
    """
    rows = [_row(cluster) for cluster in registry.known()]
    cells = [{**row, "age": _age(row["created"])} for row in rows]
    out.emit(rows, output, out.rows(None, ("name", "cluster", "age", "state"), cells))


def _row(cluster: EmbeddedCluster | KindCluster) -> dict[str, Any]:
    """{name, cluster: the kind, created (RFC 3339, None if not known), state}."""
    try:
        state = "running" if cluster.running() else "ended"
    except FairleadError:  # Docker cannot be asked
        state = "unknown"
    try:
        created = datetime.fromtimestamp(cluster.kubeconfig.stat().st_mtime, UTC)
    except OSError:
        created = None
    return {
        "name": cluster.name,
        "cluster": cluster.kind,
        "created": texts.time(created) if created else None,
        "state": state,
    }


def _age(created: str | None) -> str | None:
    """The time since `created` in its largest unit, such as 3h."""
    if created is None:
        return None
    return durations.rough(datetime.now(UTC) - datetime.fromisoformat(created), 1)

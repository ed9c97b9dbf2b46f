"""`fairlead demo`: show in a new cluster where pods land and why others are refused."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from fairlead.checks import demo as library
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import FairleadError
from fairlead.engines import enforcement
from fairlead.settings.models import Settings


@click.command()
@options.own_cluster("demo")
@options.new_engine
@click.option("--keep", is_flag=True, help="Leave the cluster running afterwards.")
@options.output
def command(name: str, engine: str, keep: bool, output: str) -> None:
    """See Fairlead at work: a real API server, three node pools, and where each pod lands or why it
    is refused.

    A cluster that was kept by an earlier run is replaced.
    """
    with out.progress() as progress:
        EmbeddedCluster(name).down()
        with enforcement.started(
            name, Settings(), library.NODES, engine=engine, progress=progress
        ) as cluster:
            rows = library.run(cluster, progress=progress)
            if keep:
                cluster.detach()
    out.emit(rows, output, lambda console: _draw(rows, console))
    if keep:
        out.note(
            f"\nthe cluster runs on: export KUBECONFIG={cluster.kubeconfig}; `fairlead down --name "
            f"{name}` ends it"
        )
    if wrong := library.misplaced(rows):
        raise FairleadError(f"outside their pool: {', '.join(wrong)}")


def _draw(rows: list[dict[str, Any]], console: Console) -> None:
    placed = [row for row in rows if row["allowed"]]
    refused = [row for row in rows if not row["allowed"]]
    out.rows(
        "Where each pod landed",
        ("namespace", "pod", "pool", "node", "phase", "message"),
        placed,
        {"node": "green"},
    )(console)
    console.print()
    out.rows(
        "What was refused, and why",
        ("namespace", "pod", "pool", "message"),
        refused,
        {"pod": "red"},
    )(console)

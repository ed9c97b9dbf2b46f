"""`fairlead demo`: show in a new cluster where pods land and why others are refused, or on which of
several clusters applications run."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.clusters import demo_federation
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.demos import pools as library
from fairlead.operations import up
from fairlead.settings.models import Settings


@click.command()
@options.own_cluster("demo")
@options.new_engine
@click.option(
    "--federation",
    is_flag=True,
    help="Show how applications are placed over several clusters instead.",
)
@click.option("--keep", is_flag=True, help="Leave the cluster running afterwards.")
@options.output
def command(name: str, engine: str, federation: bool, keep: bool, output: str) -> None:
    """See Fairlead at work: a real API server, three node pools, and where each pod lands or why it
    is refused.

    A cluster that was kept by an earlier run is replaced.

    With --federation, play the scenario of docs/placement.md: decide, take a certification from a
    cluster, see what moves, and apply what Karmada and Argo CD need to a real API server. Exit
    code: 1 if something is not as expected.
    """
    if federation:
        _require_no_cluster_options()
        demo_federation.run(output, keep=keep)
        return
    with out.progress() as progress:
        EmbeddedCluster(name).down()
        with up.started(
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
    else:
        out.note(
            "\nthe cluster is removed: `fairlead up` starts one that stays, and "
            "docs/first-ten-minutes.md goes on from there"
        )
    if misplaced := library.misplaced(rows):
        raise FairleadError(f"outside their pool: {', '.join(misplaced)}")


def _require_no_cluster_options() -> None:
    context = click.get_current_context()
    for parameter in ("name", "engine"):
        if context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"--{parameter} is for the demo of node pools: leave out it, or --federation"
            )


def _draw(rows: list[dict[str, Any]], console: Console) -> None:
    admitted = [row for row in rows if row["allowed"]]
    refused = [row for row in rows if not row["allowed"]]
    out.rows(
        "Where each pod landed",
        ("namespace", "pod", "pool", "node", "message"),
        admitted,
        {"node": "green"},
    )(console)
    console.print()
    out.rows(
        "What was refused, and why",
        ("namespace", "pod", "pool", "message"),
        refused,
        {"pod": "red"},
    )(console)

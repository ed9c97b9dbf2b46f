"""`fairlead status`: what runs and what it serves."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from fairlead import output as out
from fairlead import status as library
from fairlead.clusters import registry
from fairlead.commands import options
from fairlead.errors import FairleadError


@click.command()
@options.cluster
@options.output
def command(target: registry.Target, output: str) -> None:
    """Tell what runs in a cluster, which policies are in force, and until when the certificates last.

    Exit code 1 when nothing is deployed, an OPA is not ready or a policy is not in force.
    """
    data = library.status(registry.find(target))
    if not data["deployed"] and output == "table":
        raise FairleadError(
            f"not deployed: cluster {data['name']} is there, and nothing of Fairlead: `fairlead deploy`"
        )
    out.emit(data, output, lambda console: _draw(data, console))
    good = data["deployed"] and data["opa"] and all(opa["ready"] for opa in data["opa"])
    if not good or any(policy["status"] != "ok" for policy in data["policies"]):
        raise SystemExit(1)


def _draw(data: dict[str, Any], console: Console) -> None:
    out.rows(None, ("name", "cluster", "engine", "sidecar", "kubeconfig"), [data])(console)
    for title, columns in (
        ("opa", ("url", "pid", "ready", "revision")),
        ("policies", ("name", "status", "error")),
        ("certificates", ("name", "notAfter", "warning")),
        ("servers", ("name", "pid", "restarts")),
    ):
        console.print()
        out.rows(title, columns, data[title])(console)

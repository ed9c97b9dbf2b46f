"""`fairlead status`: show what runs in a cluster and which policies are in force."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.common.errors import FairleadError
from fairlead.operations import drift
from fairlead.operations import status as library


@click.command()
@options.cluster
@options.output
def command(target: registry.Target, output: str) -> None:
    """Show what runs in a cluster, which policies are in force, and when the certificates expire.

    Exit code: 1 if nothing is deployed, if an intent is disabled, if a certificate has ended, if a
    webhook, guard or right is not as deployed, or if anything is wrong with an OPA, its sidecar, a
    policy or a server. `problems` lists what is wrong.
    """
    data = library.status(registry.find(target))
    if not data["deployed"] and output == "table":
        raise FairleadError(
            f"not deployed: cluster {data['name']} runs without Fairlead: run `fairlead deploy`"
        )
    out.emit(data, output, lambda console: _draw(data, console))
    if data["problems"] or not data["deployed"]:
        raise SystemExit(1)


def _draw(data: dict[str, Any], console: Console) -> None:
    out.rows(None, ("name", "cluster", "engine", "sidecar", "kubeconfig"), [data])(console)
    if data["disabled"]:
        console.print()
        record = ("intent", "by", "since", "reason")
        out.rows("disabled", record, data["disabled"], dict.fromkeys(record, "bold red"))(console)
    for title, columns in (
        ("opa", ("pod", "url", "pid", "ready", "revision", "confirmed")),
        ("sidecars", ("pod", "url", "pid", "healthy", "reasons")),
        ("policies", ("name", "status", "error")),
        ("admission", ("what", "objects", "failurePolicy", "state")),
        ("certificates", ("name", "notAfter", "renewed", "by", "renewer", "warning")),
        ("servers", ("name", "pid", "restarts", "running")),
    ):
        console.print()
        rows = [
            {**row, "reasons": "; ".join(row["reasons"])} if "reasons" in row else row
            for row in (_admission(data["objects"]) if title == "admission" else data[title])
        ]
        if title == "policies":
            rows = [
                {**row, "status": "loaded; no decision uses it"} if row["used"] is False else row
                for row in rows
            ]
        out.rows(title, columns, rows)(console)
    if data["problems"]:
        console.print()
        out.rows("problems", ("problem",), [{"problem": problem} for problem in data["problems"]])(
            console
        )


def _admission(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each kind of webhook, for all guards, and for all rights: how many objects, and
    which of them are not as deployed.
    """
    kinds = {
        "mutating webhooks": drift.WEBHOOKS[:1],
        "validating webhooks": drift.WEBHOOKS[1:],
        "guards": drift.GUARDS,
        "rights": drift.RIGHTS,
    }
    rows = []
    for what, members in kinds.items():
        entries = [entry for entry in objects if entry["kind"] in members]
        others = [
            f"{entry['kind']} {entry['name']} {entry['state']}"
            for entry in entries
            if entry["state"] != drift.AS_DEPLOYED
        ]
        policies = sorted({entry["failurePolicy"] for entry in entries} - {None})
        if entries:
            rows.append(
                {
                    "what": what,
                    "objects": len(entries),
                    "failurePolicy": ", ".join(policies) or None,
                    "state": "; ".join(others) or drift.AS_DEPLOYED,
                }
            )
    return rows

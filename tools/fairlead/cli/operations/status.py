"""`fairlead status`: show what runs in a cluster and which policies are in force."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import OPA_ENGINE
from fairlead.operations import drift, status


@click.command()
@options.cluster
@options.output
def command(target: registry.Target, output: str) -> None:
    """Show what runs in a cluster, which policies are in force, and when the certificates expire.

    Exit code: 1 if nothing is deployed, if an intent is disabled, if a certificate has ended, if a
    webhook, guard or right is not as deployed, if OPA rejects policies or data or serves some that
    were deleted, or if anything is wrong with an OPA, its sidecar, the controller or a
    server. `problems` lists what is wrong.
    """
    data = status.status(registry.find(target))
    if not data["deployed"] and output == "table":
        raise FairleadError(undeployed(data))
    out.emit(data, output, lambda console: _draw(data, console))
    if data["problems"] or not data["deployed"]:
        raise SystemExit(1)


def undeployed(data: dict[str, Any]) -> str:
    """What is to be done in a cluster in which nothing is deployed."""
    title = f"not deployed: cluster {data['name']} runs without Fairlead"
    if not data["remains"]:
        return f"{title}: run `fairlead deploy`"
    return (
        f"{title}, but not all of it is gone: {'; '.join(data['remains'])}. Run `fairlead deploy` "
        "to have all of it again, or `fairlead uninstall` to remove the rest"
    )


def _draw(data: dict[str, Any], console: Console) -> None:
    out.rows(None, ("name", "cluster", "engine", "sidecar", "kubeconfig"), [data])(console)
    if url := data.get("bundles"):
        console.print(
            f"policies: the signed bundles of {url}; webhooks and guards are not compared",
            markup=False,
        )
    if data["disabled"]:
        console.print()
        record = ("intent", "by", "since", "until", "reason")
        out.rows("disabled", record, data["disabled"], dict.fromkeys(record, "bold red"))(console)
    for title, columns, rows in (
        (data["engine"], ("pod", "url", "ready", "revision", "data as of"), _opas(data["opa"])),
        ("sidecars", ("pod", "url", "ready", "reasons"), _healths(data["sidecars"])),
        (
            "controllers",
            ("pod", "url", "ready", "leads", "bindings", "reasons"),
            _controllers(data["controllers"]),
        ),
        ("intents", ("name", "enforcement", "kinds"), _intents(data["intents"], data["disabled"])),
        ("policies", ("name", "status", "error"), _policies(data["policies"])),
        ("data", ("name", "status", "error"), data["data"]),
        ("admission", ("what", "objects", "failurePolicy", "state"), _admission(data["objects"])),
        (
            "certificates",
            ("name", "ends", "renewed", "by", "renewer", "warning"),
            [{**row, "ends": row["notAfter"]} for row in data["certificates"]],
        ),
    ):
        if rows or (data["engine"] == OPA_ENGINE and title not in ("controllers", "data")):
            console.print()
            out.rows(title, columns, rows)(console)
    console.print()
    console.print("servers", style="bold")
    out.fields(console, list(_servers(data["servers"])), label_width=11)
    console.print()
    if data["problems"]:
        console.print("problems", style="bold")
        out.fields(console, [("-", problem) for problem in data["problems"]], label_width=2)
    else:
        console.print("no problems")


def _opas(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "data as of": row["confirmed"]} for row in rows]


def _healths(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**row, "ready": row["healthy"], "reasons": "; ".join(row["reasons"]) or None}
        for row in rows
    ]


def _controllers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "leads": row["leading"]} for row in _healths(rows)]


def _intents(rows: list[dict[str, Any]], disabled: list[dict[str, Any]]) -> list[dict[str, Any]]:
    off = {record["intent"] for record in disabled}
    return [
        {
            **row,
            "enforcement": "disabled" if row["name"] in off else row["enforcement"],
            "kinds": ", ".join(row["kinds"]),
        }
        for row in rows
    ]


def _policies(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**row, "status": "loaded; no decision uses it"} if row["used"] is False else row
        for row in rows
    ]


def _servers(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The names of those that run, that were restarted and that have ended, each after a label."""
    restarted = [f"{row['name']} ({row['restarts']})" for row in rows if row["restarts"]]
    for label, names in (
        ("running", [row["name"] for row in rows if row["running"]]),
        ("restarted", restarted),
        ("ended", [row["name"] for row in rows if not row["running"]]),
    ):
        if names:
            yield label, ", ".join(names)


def _admission(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each kind of webhook, for all guards, and for all rights: how many objects, and
    which of them are not as deployed.
    """
    kinds = {
        "mutating webhooks": drift.WEBHOOKS[:1],
        "validating webhooks": drift.WEBHOOKS[1:],
        "admission policies": (*drift.MUTATING, *drift.GUARDS),
        "guards": drift.GUARDS,
        "rights": drift.RIGHTS,
    }
    rows = []
    for title, members in kinds.items():
        entries = [
            entry
            for entry in objects
            if entry["kind"] in members
            and (title == "admission policies") == entry["name"].startswith("fairlead.")
        ]
        states = [
            f"{entry['kind']} {entry['name']} {entry['state']}"
            for entry in entries
            if entry["state"] != drift.AS_DEPLOYED
        ]
        policies = sorted({entry["failurePolicy"] for entry in entries} - {None})
        if entries:
            rows.append(
                {
                    "what": title,
                    "objects": len(entries),
                    "failurePolicy": ", ".join(policies) or None,
                    "state": "; ".join(states) or drift.AS_DEPLOYED,
                }
            )
    return rows

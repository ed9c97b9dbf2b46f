"""`python -m lab chaos`: break every component under load, and check what holds all the same."""

from __future__ import annotations

import random
from typing import Any

import click
from rich.console import Console

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.common.errors import FairleadError
from lab.chaos.run import Options, run

_CHANGE = ("change", "done", "failed", "p50", "p95", "why")
_FAULT = ("fault", "times", "survived", "p50", "p95", "longest", "settled")


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(5),
    default=600,
    show_default=True,
    help="Seconds of faults.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="Seed of the random schedule.  [default: a new one each time]",
)
@click.option(
    "--clients",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="Number of clients that create pods.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 8),
    default=2,
    show_default=True,
    help="Number of OPAs, each with a sidecar.",
)
@click.option(
    "--cluster",
    "kind",
    type=click.Choice(["embedded", "kind"]),
    default="embedded",
    show_default=True,
    help="Kind of cluster: a new embedded one, or a KIND cluster. A KIND cluster that exists "
    "already is kept afterwards.",
)
@click.option(
    "--name", help="Name of the cluster.  [default: chaos; of kind: KIND_CLUSTER_NAME or fairlead]"
)
@options.output
def command(
    seconds: float,
    seed: int | None,
    clients: int,
    replicas: int,
    kind: str,
    name: str | None,
    output: str,
) -> None:
    """Break a cluster at random under load, and check that no pod is misplaced and that no access
    outlasts its window.

    The run kills and stops OPA, its sidecar, the controller and the API server, compacts
    etcd, breaks the policies' ConfigMap, and deletes it, a guard, and the Leases by which
    controllers take turns. Meanwhile clients create pods and namespaces, access is granted and
    revoked, and policies, token and certificate are replaced, by objects. Ctrl-C ends the run
    early. A KIND cluster that existed before keeps the run's settings and policies: run `fairlead
    deploy` afterwards.
    """
    target = registry.chosen(kind, "chaos" if kind == "embedded" and name is None else name)
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000)
    with out.progress() as progress:
        summary = run(
            Options(seconds, seed, clients, replicas, target.name, kind), progress=progress
        )
    out.emit(summary, output, lambda console: _draw(summary, console))
    broken = [
        invariant["invariant"] for invariant in summary["invariants"] if not invariant["holds"]
    ]
    if broken:
        raise FairleadError(
            f"does not hold: {'; '.join(broken)}; `--seed {seed}` repeats the schedule"
        )


def _draw(summary: dict[str, Any], console: Console) -> None:
    counts = ", ".join(f"{count} {what}" for what, count in summary["creates"].items())
    early = ", interrupted" if summary["interrupted"] else ""
    console.print(f"seed {summary['seed']}, {summary['seconds']} s{early}: {counts}\n")
    for title, key in (("Refused, and why", "refused"), ("Failed, and why", "errors")):
        out.rows(title, ("count", "mapped", "unmapped", "why"), summary[key])(console)
        console.print()
    changes = [
        {**change, "why": "\n".join(change["why"] or ()) or None} for change in summary["changes"]
    ]
    out.rows("Pushes and rotations under load (seconds)", _CHANGE, changes)(console)
    console.print()
    sums = {key: sum(fault[key] for fault in summary["faults"]) for key in ("times", "survived")}
    every = {"fault": "all", **sums, **summary["recovery"]}
    title = "Faults, and seconds until pods are placed again (settled: until the last failure)"
    out.rows(title, _FAULT, [*summary["faults"], every])(console)
    granted = ", ".join(f"{count} {what}" for what, count in summary["access"].items())
    console.print(f"access, and the seconds that it outlasted its window: {granted}")
    for what in summary["could not"]:
        console.print(f"could not be done: {what}")
    console.print()
    out.rows("Invariants", ("holds", "checked", "violations", "invariant"), summary["invariants"])(
        console
    )
    for invariant in summary["invariants"]:
        for violation in invariant["named"]:
            console.print(f"  {invariant['invariant']}: {violation}")

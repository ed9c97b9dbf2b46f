"""`python -m lab bench`: measure Fairlead and its peers side by side. bench/README.md says what is
measured, and how to read it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Sequence

import click

from fairlead.cli import output
from fairlead.common import paths
from lab.bench import picture, runs
from lab.bench.figures import Row
from lab.bench.peers import PEERS, Peer

RESULTS = "bench/results.json"
_COLUMNS = ("suite", "peer", "n", "metric", "clients", "unit", "p50", "p99", "ratio_to_floor")


@click.command()
@click.option("--quick", is_flag=True, help="Few rounds and 10 namespaces, in two minutes.")
@click.option("--suite", "suites", multiple=True, type=click.Choice(runs.SUITES))
@click.option("--peer", "names", multiple=True, type=click.Choice([peer.name for peer in PEERS]))
@click.option("--namespaces", multiple=True, type=click.IntRange(1), help="In the cluster.")
@click.option(
    "--rounds",
    type=click.IntRange(2),
    help="Rounds of latency; a third or a tenth of it for what takes longer.",
)
@click.option("--seed", type=int, help="Orders the peers in each round.")
def command(
    quick: bool,
    suites: tuple[str, ...],
    names: tuple[str, ...],
    namespaces: tuple[int, ...],
    rounds: int | None,
    seed: int | None,
) -> None:
    """Measure Fairlead and its peers side by side, and write bench/results.json with a picture.

    Without --quick, it takes about an hour and a quarter. With --suite, the rows of other
    suites stay. A run that is interrupted writes what it has measured.
    """
    with output.progress() as progress:
        plan = runs.quick(progress) if quick else runs.full(progress)
        plan = dataclasses.replace(
            plan,
            suites=suites or plan.suites,
            peers=_with_floors(names) if names else plan.peers,
            sizes=sorted(namespaces) or plan.sizes,
            rounds=rounds or plan.rounds,
            few_rounds=max(2, rounds // 3) if rounds else plan.few_rounds,
            fewest_rounds=max(2, rounds // 10) if rounds else plan.fewest_rounds,
            seed=plan.seed if seed is None else seed,
        )
        measured: list[Row] = []
        try:
            for row in runs.run(plan, progress):
                measured.append(row)
        finally:
            _write([*_others(plan.suites), *measured])
    output.rows(None, _COLUMNS, measured)(output.console())


def _write(rows: Sequence[Row]) -> None:
    target = paths.root() / RESULTS
    target.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    picture.draw(rows, target.with_suffix(".svg"), target.with_suffix(".png"))


def _with_floors(names: Collection[str]) -> list[Peer]:
    """The peers with these names, and those that their ratios are to."""
    floors = {peer.floor for peer in PEERS if peer.name in names}
    return [peer for peer in PEERS if peer.name in floors or peer.name in names]


def _others(suites: Collection[str]) -> list[Row]:
    """The rows of an earlier run, except those of these suites."""
    target = paths.root() / RESULTS
    if not target.exists():
        return []
    every = {*suites, *(("processor",) if "throughput" in suites else ())}
    return [row for row in json.loads(target.read_text()) if row["suite"] not in every]

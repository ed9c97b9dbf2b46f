"""Measures how long OPA takes to decide on which clusters a workload runs, by `opa bench` with
the garbage collection of a deployed OPA; writes bench/placement.json and prints it.

These are figures, not tests: a busy machine has worse ones, and the least time (`min`) then says
more than the median. The number of allocations is the same on every machine. `look_ups` compares
with the bare look-up of bench/peers, measured beside it: machines differ, and one machine does
from one minute to the next. A decision with 500 clusters should take less than 5 ms, with any
number of customers. It adds up the cost of what the workload requests and sends.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from fairlead.cli import output
from fairlead.common import paths
from lab import decision_cost, placement_cost
from lab.benchmarks import Measurement
from lab.placement_cost import JURISDICTIONS

RESULTS = "bench/placement.json"
ROUNDS = 3


def columns(measure: Callable[[], Measurement]) -> dict[str, Any]:
    """What `measure` measures in some rounds as the columns of a table: the times of the best round
    in milliseconds, and `look_ups`, the median over the rounds of its median divided by the bare
    look-up's.
    """
    rounds = [(measure(), decision_cost.of_peer("look_up", namespaces=10)) for _ in range(ROUNDS)]
    best, look_up = min(rounds, key=lambda both: both[0].p50)
    return {
        "min": round(min(measurement.least for measurement, _ in rounds) / 1e6, 2),
        "p50": round(best.p50 / 1e6, 2),
        "p99": round(best.p99 / 1e6, 2),
        "allocations": best.allocations,
        "look_up_us": round(look_up.p50 / 1e3, 1),
        "look_ups": round(statistics.median(each.p50 / floor.p50 for each, floor in rounds)),
    }


@click.command()
@click.option("--clusters", type=click.IntRange(1), default=500, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(clusters: int, seed: int) -> None:
    """Measure how long a decision about clusters takes; write bench/placement.json."""
    rows = [
        {
            "clusters": clusters,
            "customers": customers,
            "jurisdictions": f"{jurisdictions} of {len(JURISDICTIONS)}",
            **columns(partial(placement_cost.decision, clusters, customers, jurisdictions, seed)),
        }
        for jurisdictions in (3, len(JURISDICTIONS))
        for customers in (20, 2000)
    ]
    (paths.root() / RESULTS).write_text(json.dumps(rows, indent=1) + "\n")
    output.rows(None, tuple(rows[0]), rows)(output.console())


if __name__ == "__main__":
    main()

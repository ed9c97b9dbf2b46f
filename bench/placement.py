"""Measures how long OPA takes to decide on which clusters a workload runs, by `opa bench` with
the garbage collection of a deployed OPA; writes bench/placement.json and prints it.

These are figures, not tests: a busy machine has worse ones, and the least time (`min`) then says
more than the median. The number of allocations is the same on every machine. A decision with 500
clusters should take less than 5 ms, with any number of customers. It adds up the cost of what the
workload requests and sends.
"""

from __future__ import annotations

import json
from typing import Any

import click

from fairlead.checks import placement_cost
from fairlead.checks.benchmarks import Measurement
from fairlead.checks.placement_cost import JURISDICTIONS
from fairlead.cli import output
from fairlead.common import paths

RESULTS = "bench/placement.json"


def columns(measurement: Measurement) -> dict[str, Any]:
    """A measurement as the columns of a table, with times in milliseconds."""
    return {
        "min": round(measurement.least / 1e6, 2),
        "p50": round(measurement.p50 / 1e6, 2),
        "p99": round(measurement.p99 / 1e6, 2),
        "allocations": measurement.allocations,
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
            **columns(placement_cost.decision(clusters, customers, jurisdictions, seed)),
        }
        for jurisdictions in (3, len(JURISDICTIONS))
        for customers in (20, 2000)
    ]
    (paths.root() / RESULTS).write_text(json.dumps(rows, indent=1) + "\n")
    output.rows(None, tuple(rows[0]), rows)(output.console())


if __name__ == "__main__":
    main()

"""Measures what OPA's decision costs beside a bare look-up, for each kind of request; writes
bench/decision.json and prints it.

Allocations are exact. Times are figures of a machine: a busy one has worse ones.
"""

from __future__ import annotations

import json

import click

from fairlead.checks import decision_cost
from fairlead.cli import output
from fairlead.common import paths

RESULTS = "bench/decision.json"


@click.command()
@click.option("--namespaces", type=click.IntRange(1), multiple=True, default=(10, 10_000))
def main(namespaces: tuple[int, ...]) -> None:
    """Measure what a decision costs, with so many mapped namespaces."""
    floor = decision_cost.look_up()
    measured = [(10, "", decision_cost.LOOK_UP, floor)]
    for count in namespaces:
        for profile, settings in decision_cost.PROFILES.items():
            for name, cost in decision_cost.costs(settings, count):
                measured.append((count, profile, name, cost))
    rows = [
        {
            "namespaces": count,
            "settings": profile,
            "request": name,
            "allocations": cost.allocations,
            "us": cost.microseconds,
            "x": round(cost.microseconds / floor.microseconds, 1),
        }
        for count, profile, name, cost in measured
    ]
    (paths.root() / RESULTS).write_text(json.dumps(rows, indent=1) + "\n")
    output.rows(None, tuple(rows[0]), rows)(output.console())


if __name__ == "__main__":
    main()

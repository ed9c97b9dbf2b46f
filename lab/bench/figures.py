"""The rows of bench/results.json, and their statistics."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
"""One figure: {suite, peer, n, metric, unit, p50, p99, ratio_to_floor} and what else a suite
measures. What does not apply is None. `n` is the number of mapped namespaces."""


@dataclass(frozen=True)
class Ratio:
    """A ratio to the floor: the median over all rounds, and the quartiles, which say how far apart
    the rounds are.
    """

    median: float
    lower: float
    upper: float

    def row(self) -> Row:
        """The fields of a row."""
        return {
            "ratio_to_floor": round(self.median, 3),
            "ratio_quartiles": [round(self.lower, 3), round(self.upper, 3)],
        }


def ratio(values: Sequence[float], floors: Sequence[float]) -> Ratio:
    """The ratio of the values to the floor. Both have one value for each round, and a round's value
    is divided by the floor of the same round, so that what else the machine did then concerns both.
    """
    ratios = [value / floor for value, floor in zip(values, floors, strict=True)]
    if len(ratios) == 1:
        return Ratio(*(ratios * 3))
    lower, median, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    return Ratio(median, lower, upper)


def percentile(values: Sequence[float], percent: int) -> float:
    """The percentile (1 to 99) of the values, between the two nearest if it is none of them."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def times(
    suite: str,
    peer: str,
    n: int,
    metric: str,
    unit: str,
    taken: Sequence[float],
    **further: Any,
) -> Row:
    """The row of what took so long, once in each round."""
    values = {f"p{each}": round(percentile(taken, each), 3) for each in (50, 99)}
    return row(suite, peer, n, metric, unit, **values, **further, rounds=len(taken))


def row(suite: str, peer: str, n: int | None, metric: str, unit: str, **measured: Any) -> Row:
    """A row, with None for the usual fields that were not measured."""
    usual = dict.fromkeys(("p50", "p99", "ratio_to_floor"))
    named = {"suite": suite, "peer": peer, "n": n, "metric": metric, "unit": unit}
    return {**named, **usual, **measured}

"""The rows of `make bench` about decisions: all sizes are measured in turn, so that a machine that
is slow for a while concerns all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fairlead.common.progress import Progress
from lab import decision_cost
from lab.bench import decisions
from lab.benchmarks import Measurement

A_NEW_POD = "a new pod"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The policies and requests that were measured, each with its number of namespaces. From each
    measurement to the next one, the machine takes 1 % longer; a thousand namespaces take twice as
    long as ten.
    """
    order: list[tuple[str, int]] = []

    def cost(what: str, size: int) -> Measurement:
        order.append((what, size))
        time = 1000 * 1.01 ** len(order) * (1 if size == 10 else 2)
        return Measurement(allocations=100, least=time, p50=2 * time, p99=3 * time)

    def costs(
        settings: Any, size: int, requests: Sequence[str]
    ) -> Iterator[tuple[str, Measurement]]:
        yield from ((request, cost(request, size)) for request in requests)

    monkeypatch.setattr(decision_cost, "of_peer", cost)
    monkeypatch.setattr(decision_cost, "costs", costs)
    return order


def test_the_sizes_are_measured_in_turn(measured: list[tuple[str, int]]) -> None:
    rows = list(decisions.rows((10, 1_000), Progress()))
    at = measured.index((A_NEW_POD, 10))
    assert measured[at : at + 6] == [(A_NEW_POD, 10), (A_NEW_POD, 1_000)] * 3
    few, many = (
        row for row in rows if row["metric"] == A_NEW_POD and row.get("settings") == "any pool"
    )
    assert (few["n"], many["n"]) == (10, 1_000)
    assert (few["rounds"], many["rounds"]) == (3, 3)
    assert (few["ratio_to_fewest"], many["ratio_to_fewest"]) == (1.0, 2.02)
    # The least of three rounds, and the median of their medians, in microseconds.
    assert few["least"] == round(1.01 ** (at + 1), 1)
    assert few["p50"] == round(2 * 1.01 ** (at + 3), 1)


def test_the_other_profile_is_measured_once(measured: list[tuple[str, int]]) -> None:
    rows = list(decisions.rows((10, 1_000), Progress()))
    declared = [row for row in rows if row.get("settings") == "declared pools"]
    assert {(row["rounds"], row["ratio_to_fewest"]) for row in declared} == {(1, None)}
    assert len(declared) == 2 * len(decision_cost.REQUESTS)


def test_one_size_is_measured_once(measured: list[tuple[str, int]]) -> None:
    rows = list(decisions.rows((10,), Progress(), every=False))
    assert [what for what, _ in measured] == [
        "look_up",
        "emptiest",
        "classic",
        A_NEW_POD,
        "a refused pod",
    ]
    assert {(row["n"], row["rounds"], row["ratio_to_fewest"]) for row in rows} == {(10, 1, None)}


def test_the_classic_policy_is_not_measured_with_the_most_namespaces(
    measured: list[tuple[str, int]],
) -> None:
    rows = list(decisions.rows((10, 100_000), Progress(), every=False))
    assert [what for what, size in measured if size == 100_000].count("classic") == 0
    sizes = [row["n"] for row in rows if row["peer"] == "classic OPA policy"]
    assert sizes == [10]

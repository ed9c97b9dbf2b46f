"""What a decision about clusters costs grows with their number, and with nothing else.

Allocations are the same on every machine.
"""

from __future__ import annotations

import pytest

from lab import placement_cost

pytestmark = pytest.mark.lab

LIMIT = 400
"""Allocations for each cluster where the workload may run; about 340 are enough."""


def allocations(clusters: int, customers: int) -> int:
    return placement_cost.decision(clusters, customers, jurisdictions=10).allocations


def test_the_cost_of_a_decision_grows_linearly_with_the_clusters() -> None:
    few, many = allocations(100, 20), allocations(400, 20)
    assert (many - few) / 300 <= LIMIT
    assert many <= 4 * few


def test_the_number_of_customers_does_not_matter() -> None:
    assert allocations(20, 2_000) <= allocations(20, 20) * 1.1

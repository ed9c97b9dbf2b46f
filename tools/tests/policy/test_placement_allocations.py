"""A decision about clusters takes no more allocations than it has to. Allocations are the same on
every machine; the limit leaves 5 % for another version of OPA.
"""

from __future__ import annotations

from fairlead.checks import placement_cost

LIMIT = 27_200 * 1.05
"""What a decision with 500 clusters takes, of which 150 are in the customer's jurisdictions. It
took 55,600 when each cluster was judged by itself.
"""


def allocations(customers: int) -> int:
    """What a decision takes with so many customers."""
    return placement_cost.decision(500, customers, jurisdictions=3).allocations


def test_a_decision_stays_within_its_allocations_whatever_the_number_of_customers() -> None:
    few = allocations(20)
    assert few <= LIMIT
    assert allocations(2_000) <= few * 1.1

"""A decision takes no more allocations than it has to. Allocations are the same on every machine;
the limits leave 1 % for another version of OPA.
"""

from __future__ import annotations

from fairlead.checks import decision_cost
from fairlead.checks.decision_cost import PROFILES

ANY_POOL = PROFILES["any pool"]
A_NEW_POD = "a new pod"
LIMIT = 700
"""What a new pod takes. It took 2,234 when the general rules decided about it, and the bare look-up
takes 173.
"""


def allocations(namespaces: int) -> int:
    """What a new pod takes with so many mapped namespaces."""
    ((_, cost),) = decision_cost.costs(ANY_POOL, namespaces, [A_NEW_POD])
    return cost.allocations


def test_a_new_pod_stays_within_its_allocations_whatever_the_number_of_namespaces() -> None:
    few = allocations(10)
    assert few <= LIMIT
    assert allocations(10_000) <= few * 1.1

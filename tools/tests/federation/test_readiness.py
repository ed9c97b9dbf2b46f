"""How many pods of a workload count as available."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.federation import readiness


@pytest.mark.parametrize(
    ("kind", "status", "count"),
    [
        ("Deployment", {"observedGeneration": 2, "availableReplicas": 3, "updatedReplicas": 3}, 3),
        ("Deployment", {"observedGeneration": 2, "availableReplicas": 3, "updatedReplicas": 1}, 1),
        ("Deployment", {"observedGeneration": 1, "availableReplicas": 3, "updatedReplicas": 3}, 0),
        ("Deployment", {"observedGeneration": 2}, 0),
        ("ReplicaSet", {"observedGeneration": 2, "availableReplicas": 3}, 3),
        ("StatefulSet", {"observedGeneration": 2, "availableReplicas": 3, "updatedReplicas": 2}, 2),
        ("Deployment", None, 0),
    ],
)
def test_pods_of_the_present_template_count(kind: str, status: Any, count: int) -> None:
    live = {"kind": kind, "metadata": {"generation": 2}, "status": status}
    assert readiness.available(live) == count


@pytest.mark.parametrize(
    ("conditions", "ended"),
    [
        (None, False),
        ([{"type": "Complete", "status": "True"}], True),
        ([{"type": "Failed", "status": "True"}], True),
        ([{"type": "Complete", "status": "False"}], False),
        ([{"type": "Suspended", "status": "True"}], False),
    ],
)
def test_a_job_has_ended_if_it_is_complete_or_failed(conditions: Any, ended: bool) -> None:
    assert readiness.has_ended({"status": {"conditions": conditions}}) is ended

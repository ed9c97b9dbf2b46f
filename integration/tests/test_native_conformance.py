"""Conformance cases on a real API server that decides by itself, by admission policies.
tools/tests/engines/test_cel_offline.py has all of them, decided by API servers' own code."""

from __future__ import annotations

import pytest
import representative

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.progress import Progress
from fairlead.policy import cases
from fairlead.verification.verify import verify
from lab.engines.cel import CelEngine

PROFILES = ["bare"]
pytestmark = pytest.mark.embedded("it has no policies but these")


def test_cases_of_each_operation_and_outcome_hold_on_admission_policies(
    cluster: BareCluster,
) -> None:
    engine = CelEngine(cluster=cluster)
    expressible = [case for case in cases.load(None) if not engine.inexpressible(case)]
    results = verify(representative.cases(expressible), [engine], Progress())
    assert [f"{r.case}: {r.detail}" for r in results if r.passed is False] == []
    assert len([result for result in results if result.passed]) >= 60


@pytest.mark.lab
def test_every_case_holds_on_admission_policies() -> None:
    every = cases.load(None)
    # Some cases need a cluster of the engine's own, in which deleted namespaces go.
    results = verify(every, [CelEngine()], Progress())
    assert [f"{r.case}: {r.detail}" for r in results if r.passed is False] == []
    decided = [result for result in results if result.passed]
    assert len(decided) >= 150

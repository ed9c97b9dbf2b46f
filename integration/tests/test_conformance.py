"""Conformance cases on a real API server that asks a real OPA."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import representative
from profiles import EMBEDDED, TARGET

from fairlead.clusters import registry
from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.operations import deploy
from fairlead.policy import cases
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from fairlead.verification.verify import verify
from lab.engines.webhook import WebhookEngine

PROFILES = ["processes"]


@pytest.fixture
def target(cluster: Cluster, settings: Settings) -> Iterator[registry.Target]:
    """The cluster, whose settings change with the cases."""
    yield registry.Target(name=cluster.name) if EMBEDDED else TARGET
    deploy.deploy(cluster, PolicySet.load(settings), progress=Progress())


def test_cases_of_each_operation_and_outcome_hold_on_the_api_server(
    target: registry.Target,
) -> None:
    chosen = representative.cases([case for case in cases.load(None) if not case.data])
    results = verify(chosen, [WebhookEngine(target=target)], Progress())
    assert [f"{r.case}: {r.detail}" for r in results if r.passed is not True] == []
    assert len(results) >= 60


@pytest.mark.lab
def test_every_case_holds_on_the_api_server(target: registry.Target) -> None:
    every = cases.load(None)
    results = verify(every, [WebhookEngine(target=target)], Progress())
    assert [f"{r.case}: {r.detail}" for r in results if r.passed is False] == []
    left_out = {r.case for r in results if r.passed is None}
    assert left_out == {case.name for case in every if case.data}
    assert len(results) == len(every) >= 40

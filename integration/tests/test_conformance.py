"""Every conformance case, on a real API server that asks a real OPA."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead import verification
from fairlead.clusters import registry
from fairlead.common.progress import Progress
from fairlead.operations import deploy
from fairlead.policy import cases
from fairlead.policy.policy_set import PolicySet
from fairlead.verification.verify import verify

pytestmark = pytest.mark.long

TARGET = registry.of_environment()


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Iterator[registry.Target | None]:
    """The cluster to use, whose settings change with the cases; None if the engine starts its
    own.
    """
    if TARGET.kind == "embedded":
        yield None
        return
    cluster, settings = request.getfixturevalue("cluster"), request.getfixturevalue("settings")
    yield TARGET
    deploy.deploy(cluster, PolicySet.load(settings), progress=Progress())


def test_every_case_holds_on_the_api_server(target: registry.Target | None) -> None:
    every = cases.load(None)
    results = verify(every, verification.load(["webhook"], target), Progress())
    assert [f"{r.case}: {r.detail}" for r in results if r.passed is False] == []
    left_out = {r.case for r in results if r.passed is None}
    assert left_out == {case.name for case in every if case.data}
    assert len(results) == len(every) >= 40

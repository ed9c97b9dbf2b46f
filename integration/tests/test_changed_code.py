"""Servers of an embedded cluster after the code of Fairlead has changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.clusters.embedded import remembering
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.deployment.names import CONTROLLER
from fairlead.operations import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["processes"]
pytestmark = pytest.mark.embedded("its servers are processes")


def deployed(cluster: EmbeddedCluster) -> dict[str, int | None]:
    """Deploy, and return the pid of each server."""
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())
    return {name: server["pid"] for name, server in cluster.servers().items()}


@pytest.fixture(autouse=True)
def _as_before(cluster: EmbeddedCluster) -> Iterator[None]:
    yield
    deployed(cluster)


def test_a_deployment_starts_those_of_fairlead_again_and_no_others(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = deployed(cluster)
    assert deployed(cluster) == before
    with monkeypatch.context() as changed:
        changed.setattr(remembering, "_code", lambda: "another")
        after = deployed(cluster)
    started = {name for name, pid in after.items() if before[name] != pid}
    assert started == {CONTROLLER, *(name for name in before if name.startswith("sync"))}

"""Two first deployments at the same time: the second uses the credentials that the first
created."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.operations import deployed_state, rotate, status
from fairlead.operations.deploy import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it has a cluster of its own, in which nothing is deployed")


@pytest.fixture
def bare() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(f"first-{os.getpid()}") as cluster:
        cluster.start_control_plane(progress=Progress())
        yield cluster


class AtOnce(Progress):
    """Delays both deployments until each is about to apply its first manifest, so that neither has
    seen the other.
    """

    def __init__(self, both: Barrier) -> None:
        self._wait: Callable[[], Any] | None = both.wait

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        if state.startswith("applying ") and self._wait:
            wait, self._wait = self._wait, None
            wait()


def test_two_first_deployments_end_with_the_same_credentials(bare: EmbeddedCluster) -> None:
    both, policies = Barrier(2, timeout=60), PolicySet.load(Settings())
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(deploy, bare, policies, progress=AtOnce(both)) for _ in range(2)]
        first, second = (future.result() for future in futures)
    assert [row["revision"] for row in first] == [row["revision"] for row in second]
    objects = bare.objects()
    credentials = deployed_state.credentials(objects)
    assert credentials is not None
    with rotate.alone(bare) as deployed:
        assert deployed.alone
        assert deployed.settled(credentials.tls), (
            "API servers verify OPA by the CA of its certificate"
        )
    assert status.status(bare)["problems"] == []
    mapped = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "web", "labels": {"agentpool": "pool1"}},
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "web"},
    }
    spec = {"containers": [{"name": "main", "image": "nginx:1.29"}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "web"},
        "spec": spec,
    }
    objects.apply(mapped)
    objects.apply(account)
    assert objects.create(pod)["spec"]["nodeSelector"] == {"agentpool": "pool1"}

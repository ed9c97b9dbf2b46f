"""A cluster without workloads, in which only admission works, decides as a whole one does."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from dry_runs import pod, selector
from profiles import SETTINGS

from fairlead.clusters.embedded import control_plane
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.kube.errors import Refused
from fairlead.operations import up

pytestmark = pytest.mark.embedded("it has a cluster of its own without workloads")


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with up.started(
        f"admission-{os.getpid()}", SETTINGS, {}, workloads=False, progress=Progress()
    ) as cluster:
        yield cluster


def test_neither_scheduler_nor_controllers_run(cluster: EmbeddedCluster) -> None:
    assert not cluster.servers().keys() & set(control_plane.WORKLOADS)


def test_pods_are_decided_on_without_a_service_account(cluster: EmbeddedCluster) -> None:
    objects = cluster.objects()
    labels = {"agentpool": "pool1"}
    objects.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mapped", "labels": labels}}
    )
    assert selector(objects, pod("mapped")) == labels
    with pytest.raises(Refused, match=r"admission webhook .* denied the request"):
        objects.apply(pod("mapped", nodeName="node"), dry_run=True)

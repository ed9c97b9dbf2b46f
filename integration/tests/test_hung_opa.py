"""A hung OPA: pods wait for their placement, everything else only for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import suspension
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.kube import clients
from fairlead.kube.errors import Refused

PROFILES = ["processes"]
pytestmark = pytest.mark.embedded("it stops processes of this machine")


def seconds(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def test_a_workload_waits_for_its_warning_less_than_a_pod_for_its_placement(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    namespace: Callable[..., str],
    pod: Callable[..., dict[str, Any]],
) -> None:
    mapped = namespace(agentpool="pool1")

    def deployment(disk: str) -> dict[str, Any]:
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": pod(mapped)["spec"] | {"nodeSelector": {"disk": disk}},
        }
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": mapped},
            "spec": spec,
        }

    def refused() -> None:
        with pytest.raises(Refused, match=r"node-pool\.fairlead\.dev"):
            objects.create(pod(mapped))

    objects.apply(deployment("ssd"))
    opa, *_ = cluster.opas()
    with suspension.suspended(opa.pid):
        warned = seconds(lambda: objects.apply(deployment("nvme")))
        placed = seconds(refused)
    changed = objects.get("apps/v1", "Deployment", "web", mapped) or {}
    assert changed["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "nvme"}
    assert placed - warned > 2, "the timeouts are 1 s and 5 s"
    until(lambda: objects.create(pod(mapped)), what="pods are placed again")

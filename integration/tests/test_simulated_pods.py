"""Pods of simulated nodes whose readiness somebody takes away, as node-lifecycle does while the API
server hangs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client
from waits import until

from fairlead.clusters.base import Cluster
from fairlead.kube import clients

pytestmark = pytest.mark.embedded("its nodes are those of embedded clusters")
GATE = "example.com/open"


class Pods:
    """Pods in a namespace, each by its name."""

    def __init__(self, cluster: Cluster, namespace: str, pod: Callable[..., Any]) -> None:
        self.namespace = namespace
        self._manifest = pod
        self._objects = cluster.objects()
        self._core = client.CoreV1Api(clients.connect(cluster.kubeconfig))

    def start(self, name: str, **spec: Any) -> None:
        """Create the pod, and wait until it is ready."""
        self._objects.create(self._manifest(self.namespace, name, **spec))
        until(lambda: self.conditions(name).get("Ready") == "True", what=f"{name} is ready")

    def conditions(self, name: str) -> dict[str, str]:
        """The status of each condition."""
        pod = self._objects.get("v1", "Pod", name, self.namespace)
        assert pod is not None
        return {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}

    def set(self, name: str, **conditions: str) -> dict[str, str]:
        """Change conditions; returns the status of all right after that."""
        patch = [{"type": type_, "status": status} for type_, status in conditions.items()]
        pod = self._core.patch_namespaced_pod_status(
            name, self.namespace, {"status": {"conditions": patch}}
        )
        assert pod.status is not None
        return {each.type: each.status for each in pod.status.conditions or ()}


def test_a_pod_is_ready_again_unless_a_gate_is_closed(
    cluster: Cluster, new_namespace: Callable[..., str], pod: Callable[..., Any]
) -> None:
    pods = Pods(cluster, new_namespace(), pod)
    pods.start("web")
    pods.start("gated", readinessGates=[{"conditionType": GATE}])
    before = pods.conditions("web")
    assert pods.set("gated", **{"Ready": "False", GATE: "False"})["Ready"] == "False"
    assert pods.set("web", Ready="False") == {**before, "Ready": "False"}
    until(lambda: pods.conditions("web") == before, what="the pod is ready again")
    assert pods.conditions("gated")["Ready"] == "False"
    pods.set("gated", **{GATE: "True"})
    until(lambda: pods.conditions("gated")["Ready"] == "True", what="the gate is open")

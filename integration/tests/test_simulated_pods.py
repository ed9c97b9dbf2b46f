"""Pods of simulated nodes whose readiness somebody takes away, as node-lifecycle does while the API
server hangs."""

from __future__ import annotations

from typing import Any

import pytest
from federations import TEMPLATE, Federation
from kubernetes import client
from waits import until

from fairlead.clusters import registry
from fairlead.kube import clients

pytestmark = pytest.mark.skipif(
    registry.of_environment().kind != "embedded", reason="its nodes are those of embedded clusters"
)
MEMBER = "eu-frankfurt"
GATE = "example.com/open"


class Pods:
    """Pods in a namespace of a member, each by its name."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self._core = client.CoreV1Api(clients.connect(federation.clusters[MEMBER].kubeconfig))
        federation.objects[MEMBER].apply(federation.object("Namespace"))

    def start(self, name: str, **spec: Any) -> None:
        """Create the pod, and wait until it is ready."""
        manifest = self.federation.object("Pod", spec={**TEMPLATE["spec"], **spec})
        manifest["metadata"]["name"] = name
        self.federation.objects[MEMBER].create(manifest)
        until(lambda: self.conditions(name).get("Ready") == "True", what=f"{name} is ready")

    def conditions(self, name: str) -> dict[str, str]:
        """The status of each condition."""
        pod = self.federation.objects[MEMBER].get("v1", "Pod", name, self.federation.namespace)
        assert pod is not None
        return {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}

    def set(self, name: str, **conditions: str) -> dict[str, str]:
        """Change conditions; returns the status of all right after that."""
        patch = [{"type": type_, "status": status} for type_, status in conditions.items()]
        pod = self._core.patch_namespaced_pod_status(
            name, self.federation.namespace, {"status": {"conditions": patch}}
        )
        assert pod.status is not None
        return {each.type: each.status for each in pod.status.conditions or ()}


def test_a_pod_is_ready_again_unless_a_gate_is_closed(federation: Federation) -> None:
    pods = Pods(federation)
    pods.start("web")
    pods.start("gated", readinessGates=[{"conditionType": GATE}])
    before = pods.conditions("web")
    assert pods.set("gated", **{"Ready": "False", GATE: "False"})["Ready"] == "False"
    assert pods.set("web", Ready="False") == {**before, "Ready": "False"}
    until(lambda: pods.conditions("web") == before, what="the pod is ready again")
    assert pods.conditions("gated")["Ready"] == "False"
    pods.set("gated", **{GATE: "True"})
    until(lambda: pods.conditions("gated")["Ready"] == "True", what="the gate is open")

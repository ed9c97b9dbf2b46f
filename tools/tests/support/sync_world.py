"""A reconciler with a real OPA, and a cluster whose state the test sets."""

from __future__ import annotations

from typing import Any

from opa_server import OpaServer

from fairlead.kube.resources import Resource
from fairlead.opa.api import OpaApi
from fairlead.sync.config_maps import Owner, Verdict
from fairlead.sync.desired import Desired, Source
from fairlead.sync.metrics import Metrics
from fairlead.sync.policy_problems import Problem
from fairlead.sync.reconcile import Reconciler

POLICIES = Source("policies", "fairlead")


DATA = Source("data", "fairlead")


NAMESPACES = Source("namespaces")


PODS = Source("objects", resource=Resource("", "v1", "pods", True))


NODES = Source("objects", resource=Resource("", "v1", "nodes", False))


SYSTEM = {"fairlead-policies": {"main.rego": "package system\nmain := 1"}}


OWNER = ("fairlead", "map")


class World:
    """A reconciler with its OPA; the test sets the state of the cluster."""

    def __init__(self, server: OpaServer) -> None:
        self.server = server
        self.opa = server.api()
        self.problems: dict[Owner, list[Problem]] = {}
        self.verdicts: dict[Owner, Verdict] = {}
        sources = [POLICIES, DATA, NAMESPACES, PODS, NODES]
        self.desired = Desired(sources, namespace_labels=["agentpool"])
        self.confirmed: float | None = None
        self.max_staleness: int | None = None
        self.sidecar()

    def sidecar(self) -> None:
        """A new sidecar, as after its restart."""
        self.metrics = Metrics()
        self.reconciler = Reconciler(
            self.desired,
            self.connect,
            self.report,
            self.metrics,
            confirmed=lambda: self.confirmed,
            max_staleness=self.max_staleness,
            resources=[source.resource for source in (PODS, NODES) if source.resource],
        )

    def report(self, verdicts: dict[Owner, Verdict]) -> None:
        self.verdicts = verdicts
        self.problems |= {owner: list(verdict.problems) for owner, verdict in verdicts.items()}

    def connect(self) -> OpaApi:
        return self.opa

    def cluster(
        self,
        policies: dict[str, dict[str, str]] | None = None,
        data: dict[str, dict[str, str]] | None = None,
        namespaces: dict[str, dict[str, str]] | None = None,
        pods: dict[tuple[str, str], dict[str, Any]] | None = None,
    ) -> None:
        """Set the cluster: all ConfigMaps by name, all namespaces with their labels, and all pods
        by namespace and name.
        """
        for source, maps in ((POLICIES, policies), (DATA, data)):
            self.desired.replace(
                source, [make_config_map(name, texts) for name, texts in (maps or {}).items()]
            )
        listed = [
            {"metadata": {"name": name, "labels": labels}}
            for name, labels in (namespaces or {}).items()
        ]
        self.desired.replace(NAMESPACES, listed)
        named = [
            make_pod(namespace, name, rest) for (namespace, name), rest in (pods or {}).items()
        ]
        self.desired.replace(PODS, named)
        self.desired.replace(NODES, [])

    def settle(self) -> None:
        """Reconcile with a full comparison."""
        self.reconciler._compare_at = float("-inf")
        self.reconciler.cycle()

    def messages(self, name: str = "map") -> list[str]:
        return [problem["message"] for problem in self.problems["fairlead", name]]


def make_config_map(name: str, texts: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "fairlead", "resourceVersion": "1"},
        "data": texts,
    }


def make_pod(namespace: str, name: str, rest: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name}, **rest}

"""Member clusters for tests, and what runs in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import placed
from waits import until

from fairlead.analysis.place import Placement
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.federation import execution, shares, steps
from fairlead.federation.members import Member

CLUSTERS = ("eu-frankfurt", "us-dallas")
BOTH = dict.fromkeys(CLUSTERS, 1.0)
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "registry.example.com/shop:1"}]},
}


class Federation:
    """The members, and a namespace in them."""

    def __init__(self, clusters: Mapping[str, EmbeddedCluster], namespace: str) -> None:
        self.clusters = clusters
        self.namespace = namespace
        self.members = [
            Member(name, cluster.kubeconfig.read_text()) for name, cluster in clusters.items()
        ]
        self.objects = {name: cluster.objects() for name, cluster in clusters.items()}

    def object(self, kind: str, **parts: Any) -> dict[str, Any]:
        """A manifest of a core object in the namespace; of the namespace itself, too."""
        metadata = {"name": "any", "namespace": self.namespace}
        if kind == "Namespace":
            metadata = {"name": self.namespace}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **parts}

    def web(self, weights: Mapping[str, float], kind: str = "Deployment", **spec: Any) -> Placement:
        """The decision to run a workload with 6 pods on these clusters."""
        parts: dict[str, Any] = {
            "selector": {"matchLabels": {"app": "web"}},
            "template": TEMPLATE,
            **spec,
        }
        return placed.placement(weights, kind=kind, namespace=self.namespace, **parts)

    def carry_out(
        self,
        *parts: Placement | dict[str, Any],
        members: list[Member] | None = None,
        timeout: float = 120,
        share: float = steps.SHARE,
        progress: Progress | None = None,
    ) -> execution.Report:
        """Carry out decisions, with the manifests beside them."""
        read = placed.result(self.object("Namespace"), *parts)
        return execution.execute(
            shares.of(read),
            members or self.members,
            timeout=timeout,
            share=share,
            progress=progress or Progress(),
        )

    def running(self) -> dict[str, int]:
        """The pods that run in each cluster."""
        return {
            name: sum(
                pod["status"].get("phase") == "Running"
                and not pod["metadata"].get("deletionTimestamp")
                for pod in objects.list("v1", "Pod", self.namespace)
            )
            for name, objects in self.objects.items()
        }

    def until_running(self, *counts: int) -> None:
        """Wait until just so many pods run in each of CLUSTERS."""
        wanted = dict(zip(CLUSTERS, counts, strict=True))
        until(lambda: self.running() == wanted, what=f"the running pods are {wanted}")

    def get(self, cluster: str, kind: str = "Deployment", version: str = "apps/v1") -> Any:
        """A workload of the namespace; None if there is none."""
        return self.objects[cluster].get(version, kind, "web", self.namespace)

    def versions(self) -> list[str]:
        """The versions of what was applied, without what controllers write."""
        return [
            each["metadata"]["resourceVersion"]
            for objects in self.objects.values()
            for each in objects.list("v1", "ConfigMap", self.namespace)
        ] + [str(self.get(name)["metadata"]["generation"]) for name in CLUSTERS]


def actions(report: execution.Report) -> dict[str, list[str]]:
    """What was done in each cluster, such as `deployment/web created`."""
    done = {
        name: [f"{each.reference} {each.action}" for each in outcomes if each.action != "unchanged"]
        for name, outcomes in report.outcomes.items()
    }
    return {name: lines for name, lines in done.items() if lines}

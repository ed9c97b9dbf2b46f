"""What each cluster holds of the manifests: its share of the workloads' pods, and what they need
besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.analysis import replica_division
from fairlead.analysis.place import Result, namespace_of
from fairlead.common import files
from fairlead.common.errors import InputError
from fairlead.federation import workloads as placed
from fairlead.federation.workloads import Workload
from fairlead.kube.admission_reviews import CLUSTER_SCOPED

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Shares:
    """All that was decided on, and what goes with it.

    `companions` are the manifests of a namespace that are no workloads, by its name; those that
    belong to no namespace are `common` to all clusters. `considered` are the names of all clusters
    that the data have, also of those that get nothing.
    """

    workloads: Sequence[Workload]
    companions: Mapping[str, Sequence[Manifest]]
    common: Sequence[Manifest]
    considered: frozenset[str]

    @property
    def clusters(self) -> list[str]:
        """The clusters that get anything, sorted."""
        return sorted({name for workload in self.workloads for name in workload.replicas})

    def beside(self, cluster: str) -> list[Manifest]:
        """What the cluster needs besides its workloads, namespaces first; nothing if it has
        none.
        """
        namespaces = {each.namespace for each in self.workloads if cluster in each.replicas}
        if not namespaces:
            return []
        manifests = [
            *self.common,
            *(each for name in sorted(namespaces) for each in self.companions.get(name, ())),
        ]
        return sorted(manifests, key=lambda manifest: manifest["kind"] != "Namespace")

    def left(self, cluster: str) -> list[Manifest]:
        """The companions that the cluster does not need, as no workload of their namespace runs
        there; never a namespace, because others may use it, too.
        """
        needed = {each.namespace for each in self.workloads if cluster in each.replicas}
        return [
            manifest
            for name, manifests in self.companions.items()
            for manifest in manifests
            if name not in needed and manifest["kind"] != "Namespace"
        ]


def of(result: Result) -> Shares:
    """The shares of what was read and decided, without workloads that have errors, and without
    objects that belong to another one. Raises InputError for workloads that others could not tell
    apart.
    """
    workloads = placed.of(result.placements)
    for workload in workloads:
        _require_divisible(workload)
    companions: dict[str, list[Manifest]] = {each.namespace: [] for each in workloads}
    common: list[Manifest] = []
    for document, placement in result.documents:
        metadata = document.value.get("metadata") or {}
        if placement or not metadata.get("name") or metadata.get("ownerReferences"):
            continue
        if document.value["kind"] == "Namespace":
            companions.setdefault(metadata["name"], []).append(document.value)
        elif document.value["kind"] in CLUSTER_SCOPED:
            common.append(document.value)
        else:
            namespace = namespace_of(metadata)
            companions.setdefault(namespace, []).append(_in(namespace, document.value))
    considered = {name for each in result.placements for name in each.explanation}
    return Shares(workloads, companions, common, frozenset(considered))


def manifest(workload: Workload, cluster: str, count: int | None = None) -> dict[str, Any]:
    """The workload with `count` pods, by default the cluster's share, and, of a Job, its share of
    the completions.
    """
    value = workload.placement.document.value
    count = workload.replicas[cluster] if count is None else count
    spec = {**(value.get("spec") or {}), workload.field: count}
    if (completions := _completions(value)) is not None:
        weights = {name: workload.placement.clusters[name] for name in workload.replicas}
        spec["completions"] = replica_division.divided(completions, weights)[cluster]
    return {**_in(workload.namespace, value), "spec": spec}


def is_share(job: Workload, cluster: str, live: Manifest) -> bool:
    """Whether a Job in the cluster has just its present share."""
    share = manifest(job, cluster)["spec"]
    return all(live["spec"].get(key) == share.get(key) for key in (job.field, "completions"))


def named(workload: Workload) -> dict[str, Any]:
    """What identifies the workload in a cluster."""
    return {
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "metadata": {"name": workload.name, "namespace": workload.namespace},
    }


def _in(namespace: str, value: Manifest) -> dict[str, Any]:
    return {**value, "metadata": {**(value.get("metadata") or {}), "namespace": namespace}}


def _completions(value: Manifest) -> int | None:
    completions = (value.get("spec") or {}).get("completions")
    return completions if value["kind"] == "Job" and isinstance(completions, int) else None


def _require_divisible(workload: Workload) -> None:
    document = workload.placement.document
    mode = (document.value.get("spec") or {}).get("completionMode")
    if mode == "Indexed" and len(workload.replicas) > 1:
        raise InputError(
            files.shown(document.path),
            f"{workload.placement.title} has indexes (completionMode: Indexed), which cannot be "
            "divided: ask for one cluster by the annotation replica-set-preferences",
            line=document.line(("spec", "completionMode")),
        )

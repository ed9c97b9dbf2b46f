"""Reads the autoscalers beside workloads: an autoscaler sets the replicas of its target, so its
least number counts, and the number of the manifest does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.common.yaml_files import Document
from fairlead.placement import manifest_kinds
from fairlead.placement.manifest_kinds import mapping

# The fields of the least and the most replicas by group and kind, with what they are by default.
_FIELDS = {
    ("autoscaling", "HorizontalPodAutoscaler"): ("minReplicas", 1, "maxReplicas", 0),
    ("keda.sh", "ScaledObject"): ("minReplicaCount", 0, "maxReplicaCount", 100),
}

Key = tuple[str, str, str, str]
"""The group, the kind, the namespace and the name of an object."""


@dataclass(frozen=True)
class Autoscaler:
    """An autoscaler, and the least and the most replicas that its target has, by the fields of its
    spec.
    """

    document: Document
    least: tuple[str, int]
    most: tuple[str, int]

    @property
    def note(self) -> str:
        """A sentence about the replicas of its target."""
        value = self.document.value
        return (
            f"{value['kind']} {(value.get('metadata') or {}).get('name')} sets the replicas: "
            f"at least {self.least[1]} count, and spec.replicas is left to it"
        )


def of(documents: Iterable[Document]) -> dict[Key, Autoscaler]:
    """The autoscalers among the documents, by their targets. Of several for one target, the one
    that wants the most replicas counts.
    """
    autoscalers: dict[Key, Autoscaler] = {}
    for document in documents:
        fields = _FIELDS.get(manifest_kinds.kind_of(document.value))
        spec = mapping(document.value.get("spec"))
        target = mapping(spec.get("scaleTargetRef"))
        if fields is None or not target.get("name"):
            continue
        least, least_default, most, most_default = fields
        autoscaler = Autoscaler(
            document,
            (least, _whole(spec.get(least), least_default)),
            (most, _whole(spec.get(most), most_default)),
        )
        key = (
            str(target.get("apiVersion") or "apps/v1").rpartition("/")[0],
            str(target.get("kind") or "Deployment"),
            manifest_kinds.namespace_of(document.value.get("metadata") or {}),
            str(target["name"]),
        )
        if key not in autoscalers or autoscalers[key].least[1] < autoscaler.least[1]:
            autoscalers[key] = autoscaler
    return autoscalers


def key_of(manifest: Mapping[str, Any]) -> Key:
    """The key by which the autoscaler of a workload is found."""
    metadata = manifest.get("metadata") or {}
    return (
        *manifest_kinds.kind_of(manifest),
        manifest_kinds.namespace_of(metadata),
        str(metadata.get("name")),
    )


def scaled(manifest: Mapping[str, Any], autoscaler: Autoscaler | None) -> Mapping[str, Any]:
    """The manifest with the least replicas of its autoscaler, if it has one."""
    spec = manifest.get("spec")
    if autoscaler is None or not isinstance(spec, dict):
        return manifest
    return {**manifest, "spec": {**spec, "replicas": autoscaler.least[1]}}


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default

"""Says what becomes of the volumes of a workload that moves to other clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.common.yaml_files import Document
from fairlead.kube.pod_templates import TEMPLATES
from fairlead.placement import manifest_kinds
from fairlead.placement.manifest_kinds import mapping

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_BY_POLICY = {
    "Delete": "with its claim, the volume and what it holds are deleted there",
    "Retain": "the volume outlives its claim, and keeps what it holds until somebody removes it",
    "Recycle": "once its claim is deleted, the volume is emptied for others",
}


@dataclass(frozen=True)
class _Claim:
    """A claim of a workload: the name of the volume, its spec (None if that is not known), and
    what happens to the claim itself.
    """

    name: str
    spec: Mapping[str, Any] | None
    fate: str


def sentences(workload: Mapping[str, Any], documents: Iterable[Document]) -> list[str]:
    """A sentence about each volume with a claim: what its reclaim policy does where the workload
    leaves. The documents may have the claims, the StorageClasses and the PersistentVolumes.
    """
    objects = _Objects(documents)
    return [
        f'volume "{claim.name}": {claim.fate}; {objects.fate(claim.spec)}. '
        "Elsewhere it begins empty"
        for claim in _claims(workload, objects)
    ]


def _claims(workload: Mapping[str, Any], objects: _Objects) -> Iterator[_Claim]:
    spec = mapping(workload.get("spec"))
    retention = mapping(spec.get("persistentVolumeClaimRetentionPolicy")).get("whenDeleted")
    fate = (
        "its claims are deleted with the StatefulSet"
        if retention == "Delete"
        else "its claims stay where they are until somebody deletes them"
    )
    for template in spec.get("volumeClaimTemplates") or ():
        name = str(mapping(mapping(template).get("metadata")).get("name"))
        yield _Claim(name, mapping(mapping(template).get("spec")), fate)
    for volume in _pod_spec(workload).get("volumes") or ():
        source = mapping(mapping(volume).get("persistentVolumeClaim"))
        if source:
            claim = objects.claim(workload, str(source.get("claimName")))
            fate = f'its claim "{source.get("claimName")}" goes where the workload goes'
            yield _Claim(str(volume.get("name")), claim, fate)


def _pod_spec(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = manifest_kinds.kind_of(workload)
    part: Any = workload
    path = () if kind == manifest_kinds.PODS else TEMPLATES.get(kind, ("spec", "template"))
    for key in (*path, "spec"):
        part = mapping(part).get(key)
    return mapping(part)


class _Objects:
    """Claims, StorageClasses and PersistentVolumes by their names."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._by_kind: dict[str, dict[tuple[str, str], Any]] = {}
        for document in documents:
            metadata = document.value.get("metadata") or {}
            key = (manifest_kinds.namespace_of(metadata), str(metadata.get("name")))
            self._by_kind.setdefault(document.value["kind"], {})[key] = document.value

    def claim(self, workload: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
        """The spec of a claim in the workload's namespace; None if it is not known."""
        namespace = manifest_kinds.namespace_of(workload.get("metadata") or {})
        claim = self._by_kind.get("PersistentVolumeClaim", {}).get((namespace, name))
        return mapping(claim.get("spec")) if claim else None

    def fate(self, claim: Mapping[str, Any] | None) -> str:
        """What becomes of a volume by the reclaim policy of its claim's class or volume."""
        if claim is None:
            return "what becomes of the volume is not known, as no manifest has its claim"
        if claim.get("volumeName"):
            title = f'PersistentVolume "{claim["volumeName"]}"'
            policy = self._policy("PersistentVolume", claim["volumeName"], "Retain")
        else:
            name = claim.get("storageClassName") or self._default_class()
            title = f'StorageClass "{name}"' if name else "the default StorageClass"
            policy = self._policy("StorageClass", name, "Delete")
        if policy is None:
            return f"what becomes of the volume is not known, as no manifest has {title}"
        by_policy = _BY_POLICY.get(policy, "what that means is not known")
        return f"the reclaim policy of {title} is {policy}: {by_policy}"

    def _policy(self, kind: str, name: Any, default: str) -> str | None:
        value = self._by_kind.get(kind, {}).get(("default", str(name)))
        if value is None:
            return None
        spec = mapping(value.get("spec"))
        written = value.get("reclaimPolicy") or spec.get("persistentVolumeReclaimPolicy")
        return str(written or default)

    def _default_class(self) -> str | None:
        for (_, name), value in self._by_kind.get("StorageClass", {}).items():
            annotations = mapping(mapping(value.get("metadata")).get("annotations"))
            if annotations.get(_DEFAULT_CLASS) == "true":
                return name
        return None

"""What a manifest is for placement: whether it runs pods, whose it is, and where it belongs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.common.yaml_files import Document
from fairlead.kube import admission_reviews, served_kinds
from fairlead.kube.pod_templates import TEMPLATES as TEMPLATES

PODS = ("", "Pod")

# These are read by programs, and no API server stores them.
_NOT_STORED = ("kustomize.config.k8s.io", "admission.k8s.io")
# What policies say about templates of pods is no template.
_NOT_TEMPLATES = {"rules", "pattern"}


@dataclass(frozen=True)
class Sorted:
    """Manifests by what they are for placement: `workloads` run pods, `others` do not. `made` are
    made by a controller from another object, so that nobody sends them to a cluster.
    """

    workloads: Sequence[Document]
    others: Sequence[Document]
    made: Sequence[Document]


def sort(documents: Iterable[Document]) -> Sorted:
    """The manifests of stored objects among the documents, by what they are."""
    workloads, others, made = [], [], []
    for document in documents:
        if kind_of(document.value)[0] in _NOT_STORED:
            continue
        if owner_of(document.value):
            made.append(document)
        elif runs_pods(document.value):
            workloads.append(document)
        else:
            others.append(document)
    return Sorted(workloads, others, made)


def kind_of(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """The group and the kind of a manifest; the group of `v1` is empty."""
    return admission_reviews.group_version(manifest)[0], manifest["kind"]


def is_of_kubernetes(manifest: Mapping[str, Any]) -> bool:
    """Whether it is of one of Kubernetes' own kinds."""
    return kind_of(manifest) in served_kinds.builtin()


def owner_of(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference to the object whose controller makes this one; None without one."""
    owners = (manifest.get("metadata") or {}).get("ownerReferences") or ()
    return next(
        (owner for owner in owners if isinstance(owner, dict) and owner.get("controller")), None
    )


def runs_pods(manifest: Mapping[str, Any]) -> bool:
    """Whether the object is a pod, or has a template of pods."""
    kind = kind_of(manifest)
    if is_of_kubernetes(manifest):
        return kind == PODS or kind in TEMPLATES
    return any(_pod_specs(manifest.get("spec")))


def with_template(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The manifest as policies read it. A kind of others can have several templates, and anywhere:
    it gets one at `spec.template`, with the containers of all.
    """
    if is_of_kubernetes(manifest):
        return manifest
    pods = list(_pod_specs(manifest.get("spec")))
    merged = {
        **{key: value for pod in reversed(pods) for key, value in pod.items()},
        "containers": [container for pod in pods for container in pod["containers"]],
    }
    return {**manifest, "spec": {**manifest["spec"], "template": {"spec": merged}}}


def _pod_specs(value: Any) -> Iterator[dict[str, Any]]:
    """The specs of pods in templates below this value."""
    if isinstance(value, list):
        for part in value:
            yield from _pod_specs(part)
    if not isinstance(value, dict):
        return
    for key, part in value.items():
        if key in _NOT_TEMPLATES:
            continue
        spec = mapping(part).get("spec")
        if key.lower().endswith("template") and isinstance(spec, dict) and _has_containers(spec):
            yield spec
        else:
            yield from _pod_specs(part)


def _has_containers(spec: Mapping[str, Any]) -> bool:
    containers = spec.get("containers")
    return (
        isinstance(containers, list)
        and bool(containers)
        and all(isinstance(container, dict) for container in containers)
    )


class Scopes:
    """Whether the objects of a kind belong to a namespace."""

    def __init__(self, documents: Iterable[Document]) -> None:
        """The documents have the definitions of custom kinds."""
        definitions = served_kinds.of_definitions(document.value for document in documents)
        self._known = served_kinds.by_name(definitions)

    def is_namespaced(self, manifest: Mapping[str, Any]) -> bool | None:
        """Whether the object belongs to a namespace; None if nobody can tell."""
        kind = self._known.get(kind_of(manifest))
        if kind:
            return kind.namespaced
        if (manifest.get("metadata") or {}).get("namespace") or runs_pods(manifest):
            return True
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, if it is a mapping; what people wrote can be anything."""
    return value if isinstance(value, dict) else {}


def namespace_of(metadata: Mapping[str, Any]) -> str:
    """The namespace of an object with these metadata."""
    return metadata.get("namespace") or "default"


def title_of(manifest: Mapping[str, Any], *, namespaced: bool = True) -> str:
    """The object of a manifest, as in `Deployment shop/web`."""
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or "(unnamed)"
    return f"{manifest['kind']} {f'{namespace_of(metadata)}/' if namespaced else ''}{name}"

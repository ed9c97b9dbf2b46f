"""Where pods are in an object: a pod itself, or a workload with the template of its pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.engines.python.api import Kind, Request, get, quoted

TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "/Pod": (),
    "/ReplicationController": ("spec", "template"),
    "apps/DaemonSet": ("spec", "template"),
    "apps/Deployment": ("spec", "template"),
    "apps/ReplicaSet": ("spec", "template"),
    "apps/StatefulSet": ("spec", "template"),
    "batch/CronJob": ("spec", "jobTemplate", "spec", "template"),
    "batch/Job": ("spec", "template"),
}
"""The path of the pod template, by `group/Kind`. A pod is its own template."""

_NOUNS = {
    "initContainers": "init container",
    "containers": "container",
    "ephemeralContainers": "ephemeral container",
}
CONTAINER_LISTS = tuple(_NOUNS)


def template_path(kind: Kind) -> tuple[str, ...] | None:
    """The path of the pod template in objects of this kind; None if they have none."""
    return TEMPLATES.get(kind.path)


def judged_path(request: Request) -> tuple[str, ...] | None:
    """The path of the pod template whose containers a request decides about; None if there are
    none.
    """
    if request.operation not in ("CREATE", "UPDATE") or is_mirror(request):
        return None
    return template_path(request.kind)


def containers(pod_spec: Any) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """All containers of a pod spec: the list in which each is, its number there, and itself."""
    for name in CONTAINER_LISTS:
        entries = get(pod_spec, name, default=[])
        for number, container in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(container, Mapping):
                yield name, number, container


def is_mirror(request: Request) -> bool:
    """Whether a node's own kubelet creates the mirror pod of a static pod, which runs already."""
    node = get(request.object, "spec", "nodeName")
    return (
        "kubernetes.io/config.mirror" in get(request.object, "metadata", "annotations", default={})
        and "system:nodes" in request.user.groups
        and request.user.name == f"system:node:{node}"
    )


def title(list_name: str, container: Mapping[str, Any]) -> str:
    """A container of this list in messages, such as `init container "migrate"`."""
    return f"{_NOUNS[list_name]} {quoted(str(get(container, 'name', default='')))}"


def problems(workload: Any, path: Sequence[str]) -> Iterator[str]:
    """Why the pods of an object with a template at `path` cannot be judged; API servers send no
    such object.
    """
    field = ".".join((*path, "spec"))
    pod_spec = get(workload, *path, "spec")
    if not isinstance(pod_spec, Mapping):
        yield f"{field} is not an object: cannot tell what its pods would do"
        return
    for name in CONTAINER_LISTS:
        entries = get(pod_spec, name, default=[])
        if not (isinstance(entries, list) and all(map(_has_name, entries))):
            yield (
                f"{field}.{name} is not a list of containers with names: cannot tell what its pods "
                "would do"
            )


def _has_name(container: Any) -> bool:
    return isinstance(get(container, "name"), str)

"""Where pods are in an object: a pod itself, or a workload with the template of its pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairlead.engines.python.api import Decision, Kind, Request, get, quoted
from fairlead.kube import pod_templates
from fairlead.settings.models import Mode

TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "/Pod": (),
    **{f"{group}/{kind}": path for (group, kind), path in pod_templates.TEMPLATES.items()},
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


def makes_new_pods(request: Request) -> bool:
    """Whether the request updates a workload with another template."""
    path = template_path(request.kind)
    if request.operation != "UPDATE" or not path:
        return False
    return bool(get(request.object, *path) != get(request.old_object, *path))


def decision(
    request: Request, mode: Mode, problems: Iterable[str], left: Iterable[str]
) -> Decision:
    """Refuse for the problems. Those that an update has `left` in a template, by which new pods are
    made, are warned of. `mode` is the enforcement of the intent.
    """
    refusal = Decision.refusing(request.title, problems)
    if not makes_new_pods(request):
        return refusal
    return replace(refusal, warn=frozenset(warning(request, mode, problem) for problem in left))


def warning(request: Request, mode: Mode, problem: str) -> str:
    """The warning that every pod of the request's workload will be refused; it would be by an
    intent that only warns.
    """
    subject = f"{request.kind.kind} {quoted(request.name)}"
    return f"every pod of {subject} {will(mode)} be refused: {problem}"


def will(mode: Mode) -> str:
    """Whether an intent with this enforcement `will` refuse something, or `would`."""
    return "would" if mode == "warn" else "will"


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

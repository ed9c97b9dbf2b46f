"""Run as user: every container runs as an allowed user, and as root only if that is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.engines.python import pods
from fairlead.engines.python.api import Decision, Request, get
from fairlead.settings.models import Settings

_LAST = 2**31 - 1
"""The largest user that Kubernetes knows: a range up to it has no end."""


@dataclass(frozen=True)
class _Container:
    """A container. Its `place` is the list in which it is, and its number there."""

    place: tuple[str, int]
    title: str
    user: int | None
    non_root: bool


def decide(request: Request, parameters: Mapping[str, Any], settings: Settings) -> Decision:
    """Refuse containers that run, or may run, as another user. If an update found a template so,
    warn of new pods.
    """
    path = pods.judged_path(request)
    if path is None:
        return Decision()
    checked, left = _checked(request, path)
    problems = [*pods.problems(request.object, path), *_of_containers(checked, parameters)]
    mode = settings.mode("run-as-user")
    return pods.decision(request, mode, problems, _of_containers(left, parameters))


def _of_containers(containers: Iterable[_Container], parameters: Mapping[str, Any]) -> list[str]:
    return [
        f"{container.title} {problem}"
        for container in containers
        if (problem := _problem(container, parameters))
    ]


def _problem(container: _Container, parameters: Mapping[str, Any]) -> str | None:
    ranges: Sequence[tuple[int, int]] = [(each["min"], each["max"]) for each in parameters["users"]]
    allowed = " or ".join(_text(least, most) for least, most in ranges)
    if container.user is not None:
        if any(least <= container.user <= most for least, most in ranges):
            return None
        return (
            f"runs as user {container.user}, which is not within {allowed}: set its "
            "securityContext.runAsUser to one of these users"
        )
    image_decides = not parameters["require_user"]
    any_user = image_decides and (0, _LAST) in ranges
    any_but_root = any_user or (image_decides and (1, _LAST) in ranges)
    if any_user or (any_but_root and container.non_root):
        return None
    way_out = f"securityContext.runAsUser to a user within {allowed}"
    if any_but_root:
        way_out = f"securityContext.runAsNonRoot to true, or {way_out}"
    return f"sets no user, so that its image decides: set {way_out}"


def _text(least: int, most: int) -> str:
    if most == _LAST:
        return f"{least} or more"
    return str(least) if least == most else f"{least}..{most}"


def _checked(request: Request, path: Sequence[str]) -> tuple[list[_Container], list[_Container]]:
    """The containers that the request is about, and those that an update has left in a template."""
    after = list(_containers(get(request.object, *path, "spec")))
    if request.operation == "CREATE":
        return after, []
    before = list(_containers(get(request.old_object, *path, "spec")))
    if path:  # the new pods of a template have all of its containers
        return ([], after) if after == before else (after, [])
    known = {container.place for container in before}
    return [container for container in after if container.place not in known], []


def _containers(pod_spec: Any) -> Iterator[_Container]:
    if get(pod_spec, "os", "name") == "windows":
        return
    for name, number, container in pods.containers(pod_spec):
        user = _effective(container, pod_spec, "runAsUser")
        non_root = _effective(container, pod_spec, "runAsNonRoot") is True
        yield _Container((name, number), pods.title(name, container), user, non_root)


def _effective(container: Any, pod_spec: Any, name: str) -> Any:
    """The field of the container's securityContext, or else of the pod's."""
    inherited = get(pod_spec, "securityContext", name)
    return get(container, "securityContext", name, default=inherited)

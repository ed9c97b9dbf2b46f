"""Sidecar injection: every new pod gets an init container that runs beside its containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.engines.python.api import Decision, Patch, Request, add, get
from fairlead.engines.python.pods import is_mirror
from fairlead.settings.models import Settings

_PROGRAM = ("image", "restartPolicy", "command", "args")
"""The fields that say what a container runs. API servers and webhooks set further ones."""

Object = Mapping[str, Any]


def decide(request: Request, parameters: Mapping[str, Any], _settings: Settings) -> Decision:
    """Add the sidecar and its volumes, unless their names stand for something else in the pod."""
    if request.kind.path != "/Pod" or request.sub_resource or request.operation != "CREATE":
        return Decision()
    if is_mirror(request):
        return Decision()
    sidecar, volumes = parameters["container"], parameters["volumes"]
    conflicts = list(_conflicts(request.object, sidecar, volumes))
    if not conflicts:
        added = (*_added_volumes(request.object, volumes), *_added(request.object, parameters))
        return Decision(patch=added)
    if parameters["on_conflict"] == "refuse":
        return Decision.refusing(
            request.title, (f"{conflict}: rename it or remove it" for conflict in conflicts)
        )
    return Decision(
        warn=frozenset(
            f"{request.title}: {conflict}, so that no sidecar is injected: rename it or remove it"
            for conflict in conflicts
        )
    )


def _conflicts(pod: Any, sidecar: Object, volumes: Sequence[Object]) -> Iterator[str]:
    """What has the name of the sidecar or of one of its volumes, and is something else."""
    name = sidecar["name"]
    if _named(_list(pod, "containers"), name):
        yield f'container "{name}" has the name of a sidecar'
    init_containers = _named(_list(pod, "initContainers"), name)
    if not all(_runs_the_same(container, sidecar) for container in init_containers):
        yield f'init container "{name}" differs from the sidecar of that name'
    for volume in volumes:
        others = _named(_list(pod, "volumes"), volume["name"])
        if any(not volume.keys() <= other.keys() for other in others):
            yield f'volume "{volume["name"]}" differs from that of sidecar "{name}"'


def _runs_the_same(container: Object, sidecar: Object) -> bool:
    return all(get(container, field, default=[]) == sidecar.get(field, []) for field in _PROGRAM)


def _added_volumes(pod: Any, volumes: Sequence[Object]) -> Iterator[Patch]:
    present = _list(pod, "volumes")
    missing = [volume for volume in volumes if not _named(present, volume["name"])]
    if missing and not present:
        yield add(["spec", "volumes"], missing)
    else:
        yield from (add(["spec", "volumes", "-"], volume) for volume in missing)


def _added(pod: Any, parameters: Mapping[str, Any]) -> Iterator[Patch]:
    sidecar = parameters["container"]
    present = _list(pod, "initContainers")
    if _named(present, sidecar["name"]):
        return
    if not present:
        yield add(["spec", "initContainers"], [sidecar])
    else:
        place = "0" if parameters["position"] == "first" else "-"
        yield add(["spec", "initContainers", place], sidecar)


def _list(pod: Any, field: str) -> Sequence[Object]:
    listed: Sequence[Object] = get(pod, "spec", field, default=[])
    return listed


def _named(listed: Sequence[Object], name: str) -> list[Object]:
    return [each for each in listed if each.get("name") == name]

"""Replica limits: the number of replicas of a workload is within one of the ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.engines.python.api import Decision, Request, get, quoted
from fairlead.settings.models import Settings

_LIMITED = (
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("apps", "replicasets"),
    ("", "replicationcontrollers"),
)
_UNLIMITED = 2**31 - 1
"""The largest number of replicas that Kubernetes knows: a range up to it has no end."""

Range = Mapping[str, int]


def decide(request: Request, parameters: Mapping[str, Any], _settings: Settings) -> Decision:
    """Refuse numbers of replicas outside of the ranges, unless they are those from before."""
    ranges: Sequence[Range] = parameters["ranges"]
    subject = f"{request.resource.resource.removesuffix('s')} {quoted(request.name)}"
    if _has_replicas(request):
        problems = _of_replicas(request, ranges)
    elif parameters["autoscalers"] and _is_autoscaler(request):
        problems = _of_autoscaler(request, ranges)
    else:
        return Decision()
    return Decision.refusing(subject, problems)


def _has_replicas(request: Request) -> bool:
    """Whether the object, or the Scale, says how many replicas a workload has."""
    resource = (request.resource.group, request.resource.resource)
    return resource in _LIMITED and request.sub_resource in ("", "scale")


def _is_autoscaler(request: Request) -> bool:
    return request.kind.path == "autoscaling/HorizontalPodAutoscaler" and not request.sub_resource


def _of_replicas(request: Request, ranges: Sequence[Range]) -> Iterator[str]:
    # A workload without a number has one replica. The JSON of a Scale leaves out 0.
    unset = 0 if request.sub_resource == "scale" else 1
    number = get(request.object, "spec", "replicas", default=unset)
    unchanged = number == get(request.old_object, "spec", "replicas", default=unset)
    if request.operation == "UPDATE" and unchanged:
        return
    if not _within(ranges, number, number):
        yield (
            f"replicas {number} is not within {_text(ranges)}: set spec.replicas to one of these "
            "numbers"
        )


def _of_autoscaler(request: Request, ranges: Sequence[Range]) -> Iterator[str]:
    bounds = _bounds(request.object)
    if request.operation == "UPDATE" and bounds == _bounds(request.old_object):
        return
    outside = {name: bound for name, bound in bounds.items() if not _within(ranges, bound, bound)}
    for name, bound in outside.items():
        yield (
            f"{name} {bound} is not within {_text(ranges)}: set spec.{name} to one of these numbers"
        )
    least, most = bounds["minReplicas"], bounds["maxReplicas"]
    if not outside and not _within(ranges, least, most):
        yield (
            f"minReplicas {least} and maxReplicas {most} are not within the same range of "
            f"{_text(ranges)}: set both to numbers of one range"
        )


def _bounds(autoscaler: Any) -> dict[str, int]:
    return {
        "minReplicas": get(autoscaler, "spec", "minReplicas", default=1),
        "maxReplicas": get(autoscaler, "spec", "maxReplicas"),
    }


def _within(ranges: Sequence[Range], least: int, most: int) -> bool:
    """Whether one range includes all numbers from `least` to `most`."""
    return any(each["min_replicas"] <= least and most <= each["max_replicas"] for each in ranges)


def _text(ranges: Sequence[Range]) -> str:
    return " or ".join(map(_range_text, ranges))


def _range_text(each: Range) -> str:
    least, most = each["min_replicas"], each["max_replicas"]
    if most == _UNLIMITED:
        return f"{least} or more"
    return str(least) if least == most else f"{least}..{most}"

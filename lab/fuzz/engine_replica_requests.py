"""Requests about numbers of replicas, and settings of their limits, as strategies of hypothesis."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st

from lab.fuzz import parts
from lab.fuzz.parts import Strategy

_NUMBERS = st.sampled_from((0, 1, 2, 3, 10, 11))


def intents() -> Strategy:
    """The limits in force: none, one for all namespaces, one for some, or both."""
    some = st.fixed_dictionaries(
        {
            "intent": st.just("replica-limits"),
            "parameters": _parameters(),
            "namespaces": st.just({"matchLabels": {"env": "prod"}}),
        }
    )
    everywhere = st.fixed_dictionaries({"parameters": _parameters()})
    return st.fixed_dictionaries({}, optional={"replica-limits": everywhere, "large": some})


def _parameters() -> Strategy:
    limits = st.tuples(_NUMBERS, _NUMBERS).map(sorted)
    ranges = st.builds(
        lambda bounds, kept: {key: bounds[key] for key in kept},
        limits.map(lambda pair: {"min_replicas": pair[0], "max_replicas": pair[1]}),
        st.sets(st.sampled_from(("min_replicas", "max_replicas"))),
    )
    return st.fixed_dictionaries(
        {"ranges": st.lists(ranges, min_size=1, max_size=2)},
        optional={"autoscalers": st.booleans()},
    )


@st.composite
def reviews(draw: st.DrawFn) -> dict[str, Any]:
    """Reviews of workloads and autoscalers that are created or updated, or that are scaled."""
    kind = draw(st.sampled_from(("Deployment", "StatefulSet", "ReplicaSet")))
    what = draw(st.sampled_from((_workload, _workload, _scale, _autoscaler)))
    manifest = draw(what(kind))
    updated = what is _scale or draw(st.booleans())
    review: dict[str, Any] = draw(
        parts.review(
            manifest,
            operation="UPDATE" if updated else "CREATE",
            old=draw(what(kind)) if updated else None,
            sub_resource="scale" if what is _scale else None,
            parent={"apiVersion": "apps/v1", "kind": kind} if what is _scale else None,
        )
    )
    return review


def _workload(kind: str) -> Strategy:
    owners = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}]
    return st.fixed_dictionaries(
        {
            "apiVersion": st.just("apps/v1"),
            "kind": st.just(kind),
            "metadata": st.sampled_from(
                ({"name": "web"}, {"name": "web"}, {"name": "web", "ownerReferences": owners})
            ),
            "spec": st.fixed_dictionaries(
                {"template": st.just({"spec": {}})}, optional={"replicas": st.none() | _NUMBERS}
            ),
        }
    )


def _scale(_: str) -> Strategy:
    return st.fixed_dictionaries(
        {
            "apiVersion": st.just("autoscaling/v1"),
            "kind": st.just("Scale"),
            "metadata": st.just({"name": "web"}),
            "spec": st.fixed_dictionaries({}, optional={"replicas": _NUMBERS}),
        }
    )


def _autoscaler(_: str) -> Strategy:
    return st.fixed_dictionaries(
        {
            "apiVersion": st.just("autoscaling/v2"),
            "kind": st.just("HorizontalPodAutoscaler"),
            "metadata": st.just({"name": "web"}),
            "spec": st.fixed_dictionaries(
                {"maxReplicas": _NUMBERS}, optional={"minReplicas": st.none() | _NUMBERS}
            ),
        }
    )

"""Makes the objects by which Karmada carries out decisions (policy.karmada.io/v1alpha1).

Source: Karmada's documentation, "Resource Propagating" and "Override Policy"; pkg/scheduler/core,
pkg/controllers/binding and pkg/util/helper/webstermethod.go in its sources.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from fairlead.placement import manifest_kinds, names, placed_objects
from fairlead.placement.placed_objects import PlacedObject
from fairlead.placement.placements import Placement

API_VERSION = "policy.karmada.io/v1alpha1"
LARGEST_WEIGHT = 1_000_000_000
"""Karmada multiplies weights by up to twice the replicas (32 bits), in 64 bits."""

_DIVIDED = {("apps", "Deployment"), ("apps", "StatefulSet")}
"""The kinds whose replicas Karmada divides by itself. Before 1.16, it gives each cluster all
replicas of a ReplicaSet; of a Job, it rounds pods and completions apart."""


def policies(placements: Sequence[Placement]) -> list[dict[str, Any]]:
    """A PropagationPolicy for each object without errors (a ClusterPropagationPolicy, if it belongs
    to no namespace), followed by an OverridePolicy if its clusters differ in more than Karmada
    divides by itself. Namespaces have none, as Karmada makes them in all clusters. Raises
    InputError as placed_objects.of.
    """
    return [
        policy
        for placed in placed_objects.of(placements)
        if placed.kind != "Namespace" or placed.api_version != "v1"
        for policy in _of(placed)
    ]


def title_of(policy: Mapping[str, Any]) -> str:
    """The workload that one of these policies selects, as in `Deployment shop/web`."""
    (selector, *_) = (policy.get("spec") or {}).get("resourceSelectors") or [{}]
    return f"{selector.get('kind')} {selector.get('namespace')}/{selector.get('name')}"


def weights_of(policy: Mapping[str, Any]) -> dict[str, int]:
    """The weights of the clusters where one of these policies has its object."""
    placement = (policy.get("spec") or {}).get("placement") or {}
    preference = (placement.get("replicaScheduling") or {}).get("weightPreference") or {}
    weights = {
        name: each["weight"]
        for each in preference.get("staticWeightList") or ()
        for name in each["targetCluster"]["clusterNames"]
    }
    affinity = placement.get("clusterAffinity") or {}
    return weights or dict.fromkeys(affinity.get("clusterNames") or (), 1)


def integers(weights: Mapping[str, float]) -> dict[str, int]:
    """The smallest integers with the same proportions as `weights`, which are above 0.

    If one would exceed LARGEST_WEIGHT, the largest is LARGEST_WEIGHT, and the others are rounded,
    to 1 at least.
    """
    exact = {name: Fraction(str(weight)) for name, weight in sorted(weights.items())}
    denominator = math.lcm(*(weight.denominator for weight in exact.values()))
    scaled = {name: int(weight * denominator) for name, weight in exact.items()}
    divisor = math.gcd(*scaled.values()) or 1
    largest = max(scaled.values(), default=0)
    if largest // divisor <= LARGEST_WEIGHT:
        return {name: weight // divisor for name, weight in scaled.items()}
    return {
        name: max(1, round(Fraction(weight * LARGEST_WEIGHT, largest)))
        for name, weight in scaled.items()
    }


def _of(placed: PlacedObject) -> list[dict[str, Any]]:
    fields = placed.fields
    is_counted = manifest_kinds.kind_of(placed.placement.document.value) in _DIVIDED
    if placed.placement.follows or placed.placement.most or not any(fields.values()):
        weights: Mapping[str, int] = {}
    elif is_counted:
        weights = integers(placed.placement.clusters)
    else:
        weights = {name: placed.placement.replicas[name] or 1 for name in placed.targets}
    spec = {
        **_selecting(placed),
        # What the pods need, such as their ConfigMaps, follows the workload.
        **({} if placed.placement.follows else {"propagateDeps": placed.placement.carries}),
        "placement": _placement(list(weights) or placed.targets, weights),
    }
    prefix = "" if placed.namespace else "Cluster"
    policies = [_policy(f"{prefix}PropagationPolicy", placed, spec)]
    overridden = {name: each for name, each in fields.items() if None not in each.values()}
    if len(overridden) > 1 and any(overridden.values()) and not is_counted:
        rules = [
            {
                "targetCluster": {"clusterNames": [name]},
                "overriders": {
                    "plaintext": [
                        {"path": f"/spec/{field}", "operator": "add", "value": count}
                        for field, count in each.items()
                    ]
                },
            }
            for name, each in overridden.items()
        ]
        override = {**_selecting(placed), "overrideRules": rules}
        policies.append(_policy(f"{prefix}OverridePolicy", placed, override))
    return policies


def _placement(clusters: Sequence[str], weights: Mapping[str, int]) -> dict[str, Any]:
    """On these clusters: divided by weights, or all of it on each, without any."""
    scheduling: dict[str, Any] = {"replicaSchedulingType": "Duplicated"}
    if weights:
        scheduling = {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {
                "staticWeightList": [
                    {"targetCluster": {"clusterNames": [name]}, "weight": weight}
                    for name, weight in weights.items()
                ]
            },
        }
    return {
        "clusterAffinity": {"clusterNames": list(clusters)},
        "spreadConstraints": [
            {"spreadByField": "cluster", "minGroups": 1, "maxGroups": len(clusters)}
        ],
        "replicaScheduling": scheduling,
    }


def _selecting(placed: PlacedObject) -> dict[str, Any]:
    selector = {
        "apiVersion": placed.api_version,
        "kind": placed.kind,
        **({"namespace": placed.namespace} if placed.namespace else {}),
        "name": placed.name,
    }
    return {"resourceSelectors": [selector]}


def _policy(kind: str, placed: PlacedObject, spec: Mapping[str, Any]) -> dict[str, Any]:
    # Karmada writes the name into labels. Kinds of others may have the name of one of Kubernetes'.
    value = placed.placement.document.value
    group = "" if manifest_kinds.is_of_kubernetes(value) else manifest_kinds.kind_of(value)[0]
    suffix = ".".join(filter(None, (placed.kind.lower(), group)))
    metadata = {"name": names.short(f"{placed.name}-{suffix}")}
    if placed.namespace:
        metadata["namespace"] = placed.namespace
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}

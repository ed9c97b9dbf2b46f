"""Makes the objects by which Karmada carries out decisions (policy.karmada.io/v1alpha1).

Source: Karmada's documentation, "Resource Propagating" and "Override Policy"; pkg/scheduler/core
and pkg/util/helper/webstermethod.go in its sources.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from fairlead.placement import workloads
from fairlead.placement.decisions import Placement
from fairlead.placement.workloads import Workload

API_VERSION = "policy.karmada.io/v1alpha1"
LARGEST_WEIGHT = 1_000_000_000
"""Karmada multiplies weights by up to twice the replicas (32 bits), in 64 bits."""

_LONGEST_NAME = 63
_NOT_COUNTED = {"ReplicaSet"}
"""The kinds whose replicas Karmada before 1.16 does not divide: each cluster would get them all."""


def policies(placements: Sequence[Placement]) -> list[dict[str, Any]]:
    """A PropagationPolicy for each workload without errors, followed by an OverridePolicy if
    Karmada cannot divide the replicas of its kind by itself. Raises InputError as workloads.of.
    """
    return [policy for workload in workloads.of(placements) for policy in _of(workload)]


def title_of(policy: Mapping[str, Any]) -> str:
    """The workload that one of these policies selects, as in `Deployment shop/web`."""
    (selector, *_) = (policy.get("spec") or {}).get("resourceSelectors") or [{}]
    return f"{selector.get('kind')} {selector.get('namespace')}/{selector.get('name')}"


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


def _of(workload: Workload) -> list[dict[str, Any]]:
    clusters = integers(workload.placement.clusters)
    placement: dict[str, Any] = {
        "clusterAffinity": {"clusterNames": list(clusters)},
        "spreadConstraints": [
            {"spreadByField": "cluster", "minGroups": 1, "maxGroups": len(clusters)}
        ],
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {
                "staticWeightList": [
                    {"targetCluster": {"clusterNames": [name]}, "weight": weight}
                    for name, weight in clusters.items()
                ]
            },
        },
    }
    # What the pods need, such as their ConfigMaps, follows the workload.
    spec = {**_selecting(workload), "propagateDeps": True, "placement": placement}
    policies = [_policy("PropagationPolicy", workload, spec)]
    if workload.kind in _NOT_COUNTED:
        rules = [
            {
                "targetCluster": {"clusterNames": [name]},
                "overriders": {
                    "plaintext": [
                        {"path": f"/spec/{workload.field}", "operator": "add", "value": count}
                    ]
                },
            }
            for name, count in workload.placement.replicas.items()
        ]
        spec = {**_selecting(workload), "overrideRules": rules}
        policies.append(_policy("OverridePolicy", workload, spec))
    return policies


def _selecting(workload: Workload) -> dict[str, Any]:
    selector = {
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
    }
    return {"resourceSelectors": [selector]}


def _policy(kind: str, workload: Workload, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": _name(workload), "namespace": workload.namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _name(workload: Workload) -> str:
    """A name for the policies of the workload that no other one has; Karmada writes it into
    labels.
    """
    name = f"{workload.name}-{workload.kind.lower()}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name[: _LONGEST_NAME - 11].rstrip('.-')}-{digest}"

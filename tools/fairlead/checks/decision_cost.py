"""Measures what OPA's decision costs, for each kind of request, by `opa bench`.

Allocations are exact, and the same on every machine. Times are not: the least one says most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.checks import benchmarks
from fairlead.policy import bundles
from fairlead.settings.models import Pool, Settings, Toleration

LOOK_UP = "a bare look-up"
"""The name of the floor: a policy that looks the pool up, and does nothing else."""
PROFILES: Mapping[str, Settings] = {
    "any pool": Settings(),
    "declared pools": Settings(
        pools={
            "pool0": Pool(),
            "pool1": Pool(
                tolerations=[Toleration(key="gpu", operator="Exists", effect="NoSchedule")]
            ),
        }
    ),
}
"""The settings that are measured: those without declared pools, and with some."""
_LOOK_UP = """
package system

main := {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
	"uid": input.request.uid,
	"allowed": true,
	"patchType": "JSONPatch",
	"patch": base64.encode(json.marshal([
		{"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": pool}},
	])),
}} if {
	pool := data.kubernetes.namespaces[input.request.namespace].metadata.labels.agentpool
}
"""
_SPEC: Mapping[str, Any] = {
    "containers": [{"name": "app", "image": "registry.example.com/app:1.2.3"}],
    "tolerations": [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for key in ("not-ready", "unreachable")
    ],
}
_ASSIGNED = {**_SPEC, "nodeSelector": {"agentpool": "pool0"}}


@dataclass(frozen=True)
class Cost:
    """What one decision costs: the number of allocations, and the least microseconds."""

    allocations: int
    microseconds: float


def _review(
    kind: str, spec: Mapping[str, Any], old: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    group, _, name = kind.rpartition("/")
    manifest = {
        "apiVersion": f"{group}/v1".lstrip("/"),
        "kind": name,
        "metadata": {"name": "web", "namespace": "team-0", "labels": {"app": "web"}},
    }
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "7d9f3f5e-60a5-4a2c-8f6c-0a4f1f2f9a11",
            "kind": {"group": group, "version": "v1", "kind": name},
            "namespace": "team-0",
            "name": "web",
            "operation": "CREATE" if old is None else "UPDATE",
            "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
            "object": {**manifest, "spec": spec},
            "oldObject": None if old is None else {**manifest, "spec": old},
            "dryRun": False,
        },
        "intents": ["node-pool"],
    }


REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "a new pod": _review("Pod", _SPEC),
    "a pod with its assignment": _review("Pod", _ASSIGNED),
    "a refused pod": _review("Pod", {**_SPEC, "nodeSelector": {"agentpool": "pool9"}}),
    "an update of a pod": _review("Pod", {**_ASSIGNED, "priority": 1}, _ASSIGNED),
    "a Deployment": _review("apps/Deployment", {"template": {"spec": _SPEC}}),
    "a DaemonSet": _review("apps/DaemonSet", {"template": {"spec": _SPEC}}),
}
"""The kinds of requests that are measured, as OPA gets them."""


def look_up(namespaces: int = 10) -> Cost:
    """The cost of the bare look-up. Raises FairleadError if OPA fails."""
    return _benched({"system.rego": _LOOK_UP}, namespaces, REQUESTS["a new pod"])


def costs(
    settings: Settings, namespaces: int = 10, requests: Iterable[str] = REQUESTS
) -> Iterator[tuple[str, Cost]]:
    """The cost of each of these requests, with so many mapped namespaces. Raises FairleadError if
    OPA fails.
    """
    modules = bundles.bundle(settings).modules
    for name in requests:
        yield name, _benched(modules, namespaces, REQUESTS[name])


def _benched(modules: Mapping[str, str], namespaces: int, review: Mapping[str, Any]) -> Cost:
    mapped = {
        f"team-{number}": {"metadata": {"labels": {"agentpool": f"pool{number % 2}"}}}
        for number in range(namespaces)
    }
    measured = benchmarks.measured(
        "data.system.main",
        modules=modules,
        data={"kubernetes": {"namespaces": mapped}},
        input=review,
    )
    return Cost(measured.allocations, round(measured.least / 1000, 1))

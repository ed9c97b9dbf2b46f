"""Measures what OPA's decision costs, for each kind of request, by `opa bench`.

Allocations are exact, and the same on every machine. Times are not: the least one says most.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlead.common import paths
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Pool, Settings, Toleration
from lab import benchmarks
from lab.benchmarks import Measurement

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


def of_peer(policy: str, namespaces: int, request: str = "a new pod") -> Measurement:
    """The cost of this request with a policy of bench/peers. Raises FairleadError if OPA fails."""
    text = (paths.root() / "bench" / "peers" / f"{policy}.rego").read_text(encoding="utf-8")
    return _measured({"system.rego": text}, namespaces, REQUESTS[request])


def costs(
    settings: Settings, namespaces: int = 10, requests: Iterable[str] = REQUESTS
) -> Iterator[tuple[str, Measurement]]:
    """The cost of each of these requests, with so many mapped namespaces. Raises FairleadError if
    OPA fails.
    """
    modules = PolicySet.load(settings).modules
    for name in requests:
        yield name, _measured(modules, namespaces, REQUESTS[name])


def mapped(namespaces: int) -> dict[str, Any]:
    """So many mapped namespaces, as the sidecar gives them to OPA."""
    return {
        f"team-{number}": {"metadata": {"labels": {"agentpool": f"pool{number % 2}"}}}
        for number in range(namespaces)
    }


def _measured(
    modules: Mapping[str, str], namespaces: int, review: Mapping[str, Any]
) -> Measurement:
    return benchmarks.measured(
        "data.system.main",
        modules=modules,
        data=_data(namespaces),
        input=review,
    )


@functools.cache
def _data(namespaces: int) -> str:
    """OPA's data with so many mapped namespaces, as JSON. With 100,000, it takes half a second to
    make, a seventh of a measurement.
    """
    return json.dumps({"kubernetes": {"namespaces": mapped(namespaces)}})

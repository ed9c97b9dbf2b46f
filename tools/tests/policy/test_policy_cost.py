"""The costs of a decision and of its log entry grow no faster than the request."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.opa import cli
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Pool, Settings, Toleration

pytestmark = pytest.mark.lab

FEW, MANY = 4_000, 32_000
GROWTH = 20
"""The factor by which the processor time may grow from FEW to MANY: eight is linear, sixty-four
quadratic."""
SETTINGS = Settings(
    pod_selector="merge",
    pools={
        "gpu": Pool(
            tolerations=[Toleration(key="gpu", operator="Exists")],
            allowed_tolerations=[Toleration(key="spot", operator="Exists")],
            allowed_node_selector={"zone": ["a", "b"]},
        )
    },
)
NAMESPACES = {
    "kubernetes": {"namespaces": {"training": {"metadata": {"labels": {"agentpool": "gpu"}}}}}
}


def numbered(count: int) -> dict[str, str]:
    return {f"key-{number}": "value" for number in range(count)}


def tolerations(count: int, last: str = "spot") -> dict[str, Any]:
    return {
        "tolerations": [
            *({"key": "spot", "value": str(number)} for number in range(count)),
            {"key": last},
        ]
    }


def pod(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", **metadata},
        "spec": {"nodeSelector": {"agentpool": "gpu"}, **(spec or {})},
    }


def review(new: Any, old: Any = None, kind: str = "/Pod", **request: Any) -> dict[str, Any]:
    group, _, name = kind.partition("/")
    asked = {
        "uid": "42",
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": group, "version": "v1", "kind": name},
        "namespace": "training",
        "userInfo": {"username": "jane", "groups": ["dev"]},
        "object": new,
        **({} if old is None else {"oldObject": old}),
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def daemon_set(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "agent"}, "spec": {"template": pod(spec)}}


def noted(count: int) -> dict[str, Any]:
    """A DaemonSet's template that has only what another pool gave, so that all of it is removed."""
    given = {"nodeSelector": numbered(count), **tolerations(count)}
    note = {"fairlead.dev/assigned": json.dumps(given)}
    return {
        "metadata": {"name": "agent"},
        "spec": {"template": {"metadata": {"annotations": note}, "spec": given}},
    }


SHAPES: dict[str, Callable[[int], dict[str, Any]]] = {
    "tolerations": lambda count: review(pod(tolerations(count))),
    "an added toleration": lambda count: review(
        pod(tolerations(count, "new")), pod(tolerations(count))
    ),
    "all tolerations refused": lambda count: review(
        pod({"tolerations": [{"key": f"key-{number}"} for number in range(count)]})
    ),
    "a changed nodeSelector": lambda count: review(pod({"nodeSelector": numbered(count)}), pod()),
    "nodeSelector": lambda count: review(pod({"nodeSelector": numbered(count)})),
    "labels": lambda count: review(pod(labels=numbered(count), annotations=numbered(count))),
    "labels of a wrong type": lambda count: review(
        pod(labels=[[]] * count, annotations=[{}] * count)
    ),
    "owners": lambda count: review(
        pod(ownerReferences=[{"name": "web", "controller": False}] * count)
    ),
    "groups": lambda count: review(
        pod(), userInfo={"username": "jane", "groups": list(numbered(count))}
    ),
    "env": lambda count: review(
        pod({"containers": [{"name": "c", "env": [{"name": "a"}] * count}]})
    ),
    "a template": lambda count: review(
        daemon_set(tolerations(count, "new")), daemon_set(tolerations(count)), "apps/DaemonSet"
    ),
    "a note": lambda count: review(noted(count), kind="apps/DaemonSet"),
    "gates": lambda count: review(
        pod({"nodeSelector": {}}), pod({"schedulingGates": [{}] * count, "nodeSelector": {}})
    ),
}


def processor_time(query: str, asked: dict[str, Any]) -> float:
    """The processor seconds of `opa eval`, which do not depend on the load of the machine."""
    modules = PolicySet.load(SETTINGS).modules
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert cli.evaluate(query, modules=modules, data=NAMESPACES, input=asked) is not None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime


@pytest.mark.parametrize("shape", SHAPES)
def test_a_decision_costs_no_more_than_its_request_grows(shape: str) -> None:
    few, many = (processor_time("data.system.main", SHAPES[shape](count)) for count in (FEW, MANY))
    assert many < GROWTH * few, f"{few:.2f} s became {many:.2f} s"

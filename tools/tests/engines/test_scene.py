"""What has to exist before a request is sent to a real API server."""

from __future__ import annotations

from typing import Any

from fairlead.engines.live.scene import _target
from fairlead.policy.cases import Request

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": []},
}


def scale(replicas: int | None) -> dict[str, Any]:
    spec = {} if replicas is None else {"replicas": replicas}
    metadata = {"name": "web"}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec}


def target(**request: Any) -> dict[str, Any] | None:
    return _target(Request.model_validate(request))


def test_what_is_created_needs_nothing() -> None:
    assert target(operation="CREATE", object=POD) is None


def test_an_update_needs_what_was_there() -> None:
    assert target(operation="UPDATE", object=POD, oldObject=POD) == POD


def test_a_scale_needs_a_workload_with_the_replicas_from_before() -> None:
    parent = {"apiVersion": "apps/v1", "kind": "Deployment"}
    for before, replicas in ((4, 4), (None, 0)):
        workload = target(
            operation="UPDATE",
            subResource="scale",
            parent=parent,
            object=scale(5),
            oldObject=scale(before),
        )
        assert workload is not None
        assert (workload["kind"], workload["metadata"]) == ("Deployment", {"name": "web"})
        assert workload["spec"]["replicas"] == replicas
        selected = workload["spec"]["selector"]["matchLabels"]
        assert workload["spec"]["template"]["metadata"]["labels"] == selected


def test_a_workload_that_a_case_describes_stays_as_it_is() -> None:
    parent = {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"serviceName": "x"}}
    workload = target(
        operation="UPDATE", subResource="scale", parent=parent, object=scale(5), oldObject=scale(1)
    )
    assert workload is not None
    assert (workload["spec"]["serviceName"], workload["spec"]["replicas"]) == ("x", 1)


def test_a_pod_whose_subresource_is_asked_for_is_not_scheduled() -> None:
    pod = target(operation="UPDATE", subResource="resize", object=POD, oldObject=POD)
    assert pod is not None
    assert pod["spec"]["schedulerName"] == "nobody"
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}}
    bound = target(operation="CREATE", subResource="binding", object=binding)
    assert bound is not None
    assert (bound["kind"], bound["metadata"]) == ("Pod", {"name": "web"})

"""What has to exist before a request is sent to a real API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.engines.base import Decision
from fairlead.engines.live.marker import Marker
from fairlead.kube.clients import Objects
from fairlead.kube.responses import Response
from fairlead.policy.cases import Case, Expect, Request
from fairlead.settings.models import Settings
from lab.engines.live.scene import Scene, _target

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


class Rival(Objects):
    """An API server that holds one pod, which somebody deletes once: just before the request with
    this method arrives.
    """

    def __init__(self, method: str) -> None:
        self.pod: dict[str, Any] | None = None
        self.method = method

    def serves(self, manifest: Any) -> bool:
        return True

    def request(self, method: str, path: str, body: Any = None, **options: Any) -> Response:
        dry = (options.get("query") or body or {}).get("dryRun")
        if method == "POST" and not dry:
            self.pod = {**body, "metadata": {**body["metadata"], "uid": "1"}}
            return Response(201, self.pod, ())
        if method == self.method and (dry or method == "GET") and self.pod:
            self.method, self.pod = "", None
        if self.pod is None:
            return Response(404, {"message": 'pods "web" not found'}, ())
        if method == "DELETE" and not dry:
            self.pod = None
            return Response(200, {}, ())
        return Response(200, body if method == "PUT" else self.pod, ())


@pytest.mark.parametrize(
    ("operation", "method"), [("UPDATE", "GET"), ("UPDATE", "PUT"), ("DELETE", "DELETE")]
)
def test_a_pod_that_somebody_deletes_meanwhile_is_created_again(
    operation: str, method: str
) -> None:
    sent = {"object": POD} if operation == "UPDATE" else {}
    request = Request.model_validate({"operation": operation, "oldObject": POD, **sent})
    rival = Rival(method)
    outcome = Scene(rival, Marker(rival)).decide(
        Case("a", "node-pool", Settings(), {}, None, request, Expect(allowed=True), Path(), 1)
    )
    assert isinstance(outcome, Decision)
    assert outcome.allowed
    assert not rival.method

"""Pods land in their namespace's pool, on a real API server with a real scheduler."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from waits import until

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError
from fairlead.kube import clients
from fairlead.kube.errors import Refused

Make = Callable[..., Any]


def running(objects: clients.Objects, namespace: str, name: str = "web") -> dict[str, Any]:
    def check() -> dict[str, Any]:
        pod = objects.get("v1", "Pod", name, namespace) or {}
        if pod["status"]["phase"] != "Running":
            raise FairleadError(f"{pod['status']}")
        return pod

    return until(check, what=f"pod {namespace}/{name} runs")


def pool_of(objects: clients.Objects, node: str) -> str | None:
    labels: dict[str, str] = (objects.get("v1", "Node", node) or {})["metadata"]["labels"]
    return labels.get("agentpool")


def test_a_pod_runs_on_a_node_of_its_namespaces_pool(
    objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    for pool in ("pool1", "pool2"):
        at = namespace(agentpool=pool)
        objects.create(pod(at))
        running_pod = running(objects, at)
        assert running_pod["spec"]["nodeSelector"] == {"agentpool": pool}
        assert pool_of(objects, running_pod["spec"]["nodeName"]) == pool


def test_a_pod_of_an_unmapped_namespace_is_left_alone(
    objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    for labels in ({}, {"agentpool": ""}):
        created = objects.create(pod(namespace(**labels)))
        assert "nodeSelector" not in created["spec"]


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"agentpool": "pool2"}},
        {"nodeSelector": {"disk": "ssd"}},
        {"nodeName": "pool2-0"},
    ],
    ids=["another pool", "another key", "past the scheduler"],
)
def test_what_would_evade_the_pool_is_forbidden_and_told_why(
    objects: clients.Objects, namespace: Make, pod: Make, spec: dict[str, Any]
) -> None:
    at = namespace(agentpool="pool1")
    with pytest.raises(
        Refused,
        match=f'pool "pool1" of namespace "{at}"|"{at}" places its pods in pool "pool1"',
    ) as (refused):
        objects.create(pod(at, **spec))
    assert refused.value.status == 403
    assert "remove spec.node" in refused.value.message


def test_the_pods_of_a_deployment_are_placed(objects: clients.Objects, namespace: Make) -> None:
    at = namespace(agentpool="pool2")
    labels = {"app": "api"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    }
    objects.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "api", "namespace": at},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
        }
    )

    def nodes() -> list[str] | None:
        names = [p["spec"].get("nodeName") for p in objects.list("v1", "Pod", at)]
        return names if len(names) == 3 and all(names) else None

    scheduled = until(nodes, what="three pods are scheduled")
    assert [pool_of(objects, node) for node in scheduled] == ["pool2"] * 3


def workload(kind: str, pod: dict[str, Any]) -> dict[str, Any]:
    """A workload with the name `api` and this pod template."""
    labels, metadata = {"app": "api"}, {"name": "api", "namespace": pod["metadata"]["namespace"]}
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def test_a_daemon_set_has_a_pod_on_each_node_of_its_pool_and_none_that_waits(
    objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    at = namespace(agentpool="pool1")
    created = objects.create(workload("DaemonSet", pod(at)))
    assert created["spec"]["template"]["spec"]["nodeSelector"] == {"agentpool": "pool1"}
    pool1 = {n["metadata"]["name"] for n in objects.list("v1", "Node", None, "agentpool=pool1")}

    def scheduled() -> bool:
        status = (objects.get("apps/v1", "DaemonSet", "api", at) or {})["status"]
        nodes = {p["spec"].get("nodeName") for p in objects.list("v1", "Pod", at)}
        return nodes == pool1 and status["desiredNumberScheduled"] == len(pool1)

    until(scheduled, what="the DaemonSet wants pods on the nodes of pool1 alone, and has them")


def test_a_deployment_says_in_its_condition_and_in_an_event_why_it_has_no_pods(
    objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    at = namespace(agentpool="pool1")
    objects.create(workload("Deployment", pod(at, nodeSelector={"disk": "ssd"})))
    why = (
        f'sets spec.nodeSelector disk=ssd, but namespace "{at}" places its pods in pool "pool1": '
        "remove spec.nodeSelector, or set just agentpool=pool1"
    )

    def condition() -> str | None:
        status = (objects.get("apps/v1", "Deployment", "api", at) or {}).get("status", {})
        messages = {entry["type"]: entry["message"] for entry in status.get("conditions", ())}
        return messages.get("ReplicaFailure")

    def event() -> str | None:
        events = [
            entry["message"]
            for entry in objects.list("v1", "Event", at)
            if entry["reason"] == "FailedCreate"
        ]
        return events[0] if events else None

    for source in (condition, event):
        assert why in until(source, what=f"the Deployment's {source.__name__} says why")

    def repeated() -> list[dict[str, Any]] | None:
        events = [e for e in objects.list("v1", "Event", at) if e["reason"] == "FailedCreate"]
        return events if sum(entry.get("count") or 1 for entry in events) >= 4 else None

    # Kubernetes counts equal Events in one object.
    assert len(until(repeated, what="the ReplicaSet tried four times")) == 1
    # its ReplicaSet would go on trying while others count calls
    objects.delete("apps/v1", "Deployment", "api", at)
    until(lambda: not objects.list("apps/v1", "ReplicaSet", at), what="its ReplicaSet is gone")


def test_a_namespace_made_a_moment_ago_is_no_race(
    cluster: Cluster, objects: clients.Objects, new_namespace: Make, pod: Make
) -> None:
    """In a cluster of pods a refusal may ask to retry: kube-mgmt has no lookups, and a busy node is
    slow.
    """

    def created(at: str) -> dict[str, Any] | None:
        try:
            return objects.create(pod(at))
        except Refused as refused:
            if (
                cluster.kind == "embedded"
                or "is not known to the policy yet: retry in a moment" not in refused.message
            ):
                raise AssertionError(str(refused)) from refused
            return None

    def at_once(_: int) -> dict[str, Any]:
        at = new_namespace(agentpool="pool1")
        return until(lambda: created(at), what=f"the pod of {at} is placed")

    with ThreadPoolExecutor(4) as several:
        pods = list(several.map(at_once, range(40)))
    assert [p["spec"].get("nodeSelector") for p in pods] == [{"agentpool": "pool1"}] * 40


def test_a_relabelled_namespace_places_new_pods_by_its_new_label_and_leaves_the_old(
    objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    at = namespace(agentpool="pool1")
    objects.create(pod(at, "old"))
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": at, "labels": {"agentpool": "pool2"}},
        }
    )
    names = iter(range(1000))

    def placed_by_it() -> bool:
        created = objects.create(pod(at, f"new-{next(names)}"))
        return bool(created["spec"]["nodeSelector"] == {"agentpool": "pool2"})

    until(placed_by_it, what="new pods go to pool2")
    old = objects.get("v1", "Pod", "old", at) or {}
    changed = {
        **pod(at, "old"),
        "metadata": {"name": "old", "namespace": at, "labels": {"team": "a"}},
    }
    assert old["spec"]["nodeSelector"] == {"agentpool": "pool1"}
    assert objects.apply(changed)["metadata"]["labels"] == {"team": "a"}


def test_a_gated_pod_may_tighten_its_selector_but_not_leave_the_pool(
    objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    at = namespace(agentpool="pool1")
    gated = pod(at, schedulingGates=[{"name": "acme.io/quota"}])
    objects.create(gated)
    tightened = {
        **gated,
        "spec": {**gated["spec"], "nodeSelector": {"agentpool": "pool1", "zone": "a"}},
    }
    assert objects.apply(tightened)["spec"]["nodeSelector"] == {"agentpool": "pool1", "zone": "a"}


def test_opa_is_asked_for_nothing_else(
    objects: clients.Objects, namespace: Make, pod: Make, cluster: Cluster
) -> None:
    """The API server's metric counts the calls; other requests do not change it."""
    at = namespace(agentpool="pool1")
    free = namespace()
    objects.create(pod(at))
    before = calls(cluster)
    objects.create(pod(free))
    objects.apply({**pod(at), "metadata": {"name": "web", "namespace": at, "labels": {"x": "y"}}})
    objects.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": at}}
    )
    running(objects, at)  # its status was updated, and it was bound
    assert calls(cluster) == before
    objects.create(pod(at, "second"))
    assert calls(cluster) == before + 1  # to place it: its final state is what it was placed by
    objects.create(pod(at, "third", nodeSelector={"agentpool": "pool1"}))
    assert calls(cluster) == before + 3  # nothing is noted of what needs no change


def calls(cluster: Cluster) -> int:
    """How often the API server has called the webhooks."""
    api = clients.connect(cluster.kubeconfig)
    answer = api.call_api(
        "GET", f"{api.configuration.host}/metrics", header_params={"Accept": "text/plain"}
    )
    lines = answer.read().decode().splitlines()
    counts = [
        line for line in lines if line.startswith("apiserver_admission_webhook_request_total{")
    ]
    return sum(int(float(line.rpartition(" ")[2])) for line in counts if ".fairlead.dev" in line)

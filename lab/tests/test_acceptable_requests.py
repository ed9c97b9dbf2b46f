"""What is drawn of a request for an API server is complete, legal and changes no more than its kind
allows."""

from __future__ import annotations

from typing import Any

from fairlead.kube import admission_reviews
from lab.fuzz import acceptable

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"nodeSelector": None, "tolerations": None},
}


def asked(manifest: dict[str, Any], **of: Any) -> dict[str, Any]:
    built = admission_reviews.build(manifest, namespace="payments", **of)
    return acceptable.request(built["request"])


def pod(**spec: Any) -> dict[str, Any]:
    return {**POD, "spec": {**POD["spec"], **spec}}


def test_a_pod_has_containers_whose_names_are_unique() -> None:
    assert [c["name"] for c in asked(POD)["object"]["spec"]["containers"]] == ["c"]
    same = [{"name": "a", "image": " nginx"}, {"name": "a"}]
    spec = asked(pod(containers=same, initContainers=[{"name": "a"}, {"name": "b"}]))["object"][
        "spec"
    ]
    assert spec["containers"] == [{"name": "a", "image": "nginx"}]
    assert [c["name"] for c in spec["initContainers"]] == ["b"]


def test_requests_are_within_limits_and_not_negative() -> None:
    resources = {
        "requests": {"cpu": "2", "memory": "-1", "example.com/gpu": "0.5"},
        "limits": {"cpu": "500m"},
    }
    spec = asked(pod(containers=[{"name": "c", "resources": resources}]))["object"]["spec"]
    assert spec["containers"][0]["resources"] == {
        "requests": {"example.com/gpu": "1"},
        "limits": {"cpu": "500m", "example.com/gpu": "1"},
    }


def test_tolerations_are_legal() -> None:
    drawn = [
        {"operator": "Lt", "key": "gpu", "value": "1"},
        {"operator": "Equal", "value": "1", "key": ""},
        {"operator": "Exists", "key": "gpu", "tolerationSeconds": 60, "effect": "NoSchedule"},
    ]
    assert asked(pod(tolerations=drawn))["object"]["spec"]["tolerations"][:3] == [
        {"operator": "Equal", "key": "gpu", "value": "1"},
        {"operator": "Exists"},
        {"operator": "Exists", "key": "gpu", "tolerationSeconds": 60, "effect": "NoExecute"},
    ]


def test_a_pod_s_update_changes_its_nodeselector_only_while_it_is_gated() -> None:
    new = pod(nodeSelector={"agentpool": "pool1"})
    for gates, selector in (([], None), ([{"name": "wait"}], {"agentpool": "pool1"})):
        old = pod(schedulingGates=gates)
        update = asked(new, operation="UPDATE", old=old)
        assert (update["object"]["spec"].get("nodeSelector") or None) == selector
        assert not update["object"]["spec"].get("schedulingGates")


def test_a_pod_s_update_adds_tolerations_and_removes_none() -> None:
    first, second = {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}
    update = asked(pod(tolerations=[second]), operation="UPDATE", old=pod(tolerations=[first]))
    tolerations = update["object"]["spec"]["tolerations"]
    assert first in tolerations
    assert second in tolerations


def test_a_workload_creates_no_pods_and_selects_its_own() -> None:
    workload = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": 'a"b'},
        "spec": {"template": {"spec": {}}},
    }
    job = asked(workload)["object"]
    assert job["metadata"]["name"] == "web"
    assert job["spec"]["suspend"]
    assert job["spec"]["selector"]["matchLabels"] == job["spec"]["template"]["metadata"]["labels"]
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == "nobody"

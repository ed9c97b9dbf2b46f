"""The sidecar's contract, with a real OPA beside it and a real API server before it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairlead import kube, serving, waiting
from fairlead.clusters.base import Cluster
from fairlead.opa_api import OpaApi
from fairlead.settings import NAMESPACE

POLICY = {"openpolicyagent.org/policy": "rego"}
DATA = {"openpolicyagent.org/data": "opa"}
Put = Callable[..., dict[str, Any]]


@pytest.fixture
def put(objects: kube.Objects) -> Iterator[Put]:
    """Makes or changes a ConfigMap; all of them are removed afterwards."""
    names: set[str] = set()

    def apply(name: str, labels: dict[str, str], **data: str) -> dict[str, Any]:
        names.add(name)
        keys = {key.replace("_", "."): text for key, text in data.items()}
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
        return objects.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": keys})

    yield apply
    for name in names:
        objects.delete("v1", "ConfigMap", name, NAMESPACE)


def eventually(check: Callable[[], Any], what: str) -> Any:
    return waiting.until(check, deadline=30, what=what)


def state(objects: kube.Objects, name: str) -> dict[str, Any]:
    (found,) = [policy for policy in serving.policies(objects) if policy["name"] == name]
    return found


def test_a_policy_with_several_files_is_loaded_changed_and_removed(
    objects: kube.Objects, opa: OpaApi, put: Put
) -> None:
    put(
        "limits",
        POLICY,
        a_rego="package limits\n\nx := data.limits.lib.one(1)",
        b_rego="package limits.lib\n\none(n) := n",
    )
    eventually(lambda: opa.document(["limits", "x"]) == 1, "the policy decides")
    assert {"fairlead/limits/a.rego", "fairlead/limits/b.rego"} <= opa.policies().keys()
    assert eventually(lambda: state(objects, "limits")["status"] == "ok", "its status is ok")
    put("limits", POLICY, a_rego="package limits\n\nx := 2")
    eventually(lambda: opa.document(["limits", "x"]) == 2, "the change is in force")
    eventually(lambda: "fairlead/limits/b.rego" not in opa.policies(), "the file that is gone is unloaded")
    objects.delete("v1", "ConfigMap", "limits", NAMESPACE)
    eventually(lambda: opa.document(["limits"]) is None, "the policy is unloaded")


def test_a_label_that_goes_takes_the_policy_with_it(opa: OpaApi, put: Put) -> None:
    put("labelled", POLICY, a_rego="package labelled\n\nx := 1")
    eventually(lambda: opa.document(["labelled", "x"]) == 1, "the policy decides")
    put("labelled", {"openpolicyagent.org/policy": "no"}, a_rego="package labelled\n\nx := 1")
    eventually(lambda: opa.document(["labelled"]) is None, "the policy is unloaded")


def test_invalid_rego_is_told_with_its_line_and_the_old_policy_stays(
    objects: kube.Objects, opa: OpaApi, put: Put
) -> None:
    put("fragile", POLICY, a_rego="package fragile\n\nx := 1")
    eventually(lambda: opa.document(["fragile", "x"]) == 1, "the policy decides")
    put("fragile", POLICY, a_rego="package fragile\n\nx := {")
    found = eventually(
        lambda: state(objects, "fragile") if state(objects, "fragile")["status"] == "error" else None,
        "the error is told",
    )
    assert "a.rego:3" in found["error"]
    assert opa.document(["fragile", "x"]) == 1
    put("fragile", POLICY, a_rego="package fragile\n\nx := 3")
    eventually(lambda: opa.document(["fragile", "x"]) == 3, "the mended policy decides")
    eventually(lambda: state(objects, "fragile")["status"] == "ok", "its status is ok again")


def test_the_guard_cannot_be_replaced_by_a_config_map(objects: kube.Objects, opa: OpaApi, put: Put) -> None:
    put("evil", POLICY, a_rego="package system.authz\n\nallow := true")
    eventually(lambda: state(objects, "evil")["status"] == "error", "it is refused")
    assert "fairlead/evil/a.rego" not in opa.policies()


def test_data_is_loaded_where_kube_mgmt_would_put_it(objects: kube.Objects, opa: OpaApi, put: Put) -> None:
    put("prices", DATA, eu_json='{"gpu": 3}', us_json='{"gpu": 2}')
    eventually(
        lambda: opa.document(["fairlead", "prices"]) == {"eu.json": {"gpu": 3}, "us.json": {"gpu": 2}},
        "the data are there",
    )
    put("prices", DATA, eu_json='{"gpu": 4}')
    eventually(lambda: opa.document(["fairlead", "prices"]) == {"eu.json": {"gpu": 4}}, "the change is there")
    put("prices", DATA, eu_json="{not JSON")

    def refused() -> bool:
        found = objects.get("v1", "ConfigMap", "prices", NAMESPACE) or {}
        annotation = json.loads(found["metadata"]["annotations"][serving.STATUS])
        return bool(annotation["status"] == "error")

    eventually(refused, "it is told that the data are no JSON")
    assert opa.document(["fairlead", "prices"]) == {"eu.json": {"gpu": 4}}
    objects.delete("v1", "ConfigMap", "prices", NAMESPACE)
    eventually(lambda: opa.document(["fairlead", "prices"]) is None, "the data are gone")


def test_only_mapped_namespaces_are_replicated_and_only_what_policies_read(
    objects: kube.Objects, opa: OpaApi, namespace: Callable[..., str]
) -> None:
    free, mapped = namespace(team="a"), namespace(agentpool="pool1", team="a")
    thin = {"metadata": {"name": mapped, "labels": {"agentpool": "pool1"}}}
    eventually(lambda: opa.document(["kubernetes", "namespaces", mapped]) == thin, "the namespace is replicated")
    assert opa.document(["kubernetes", "namespaces", free]) is None
    objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": mapped}})
    eventually(lambda: opa.document(["kubernetes", "namespaces", mapped]) is None, "without its label it is forgotten")


@pytest.mark.parametrize("server", ["opa", "sync", "kube-apiserver"])
def test_a_killed_server_comes_back_and_pods_are_placed(
    cluster: Cluster,
    objects: kube.Objects,
    opa: OpaApi,
    namespace: Callable[..., str],
    pod: Callable[..., Any],
    put: Put,
    server: str,
) -> None:
    put("kept", POLICY, a_rego="package kept\n\nx := 1")
    eventually(lambda: opa.document(["kept", "x"]) == 1, "the policy decides")
    at = namespace(agentpool="pool1")
    pid = cluster.servers()[server]["pid"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: cluster.servers()[server]["pid"] not in (pid, None), f"{server} is started again")
    created = eventually(lambda: objects.create(pod(at)), "a pod is created again")
    assert created["spec"]["nodeSelector"] == {"agentpool": "pool1"}
    put("kept", POLICY, a_rego="package kept\n\nx := 2")
    eventually(lambda: opa.document(["kept", "x"]) == 2, "policies are loaded again")
    eventually(opa.ready, "OPA is ready")

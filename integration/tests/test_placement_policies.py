"""PlacementPolicies on a real API server, with two OPAs and their sidecars."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
import requests
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.deployment.names import (
    PARAMETERS_GROUP,
    PLACEMENT_POLICIES,
    POLICY_REVIEWS,
    POLICY_WEBHOOK,
)
from fairlead.kube import api_requests, clients
from fairlead.kube.errors import Refused
from fairlead.opa.api import OpaApi
from fairlead.operations import deploy, deployed_state, policy_list
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["two"]
pytestmark = pytest.mark.embedded("it has settings of its own, and kills processes")

RESOURCE, KIND, VERSION = PLACEMENT_POLICIES
API_VERSION = f"{PARAMETERS_GROUP}/{VERSION}"
WEBHOOK = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", POLICY_WEBHOOK)
RBAC = "rbac.authorization.k8s.io"
TEAMS = 'package teams\n\ndefault parameters := {"limit": 1}\n\nlimit := parameters.limit\n'


@pytest.fixture(scope="module")
def two(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """A cluster with two OPAs and the kind PlacementPolicy."""
    deploy.deploy(cluster, PolicySet.load(Settings(placement_policies=True)), progress=Progress())
    yield cluster
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())


@pytest.fixture(scope="module")
def objects(two: EmbeddedCluster) -> clients.Objects:
    """The cluster's API, as its administrator."""
    return two.objects()


@pytest.fixture(autouse=True)
def _none_left(objects: clients.Objects) -> Iterator[None]:
    yield
    for policy in objects.list(API_VERSION, KIND, None):
        objects.delete(API_VERSION, KIND, policy["metadata"]["name"])


def manifest(name: str, rego: str, **parameters: Any) -> dict[str, Any]:
    spec = {"rego": rego, **({"parameters": parameters} if parameters else {})}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def applied(objects: clients.Objects, policy: dict[str, Any]) -> None:
    """Apply the policy as soon as a sidecar answers the API server."""

    def accepted() -> bool:
        try:
            objects.apply(policy)
        except Refused as refused:
            if "failed calling webhook" not in str(refused):
                raise
            return False
        return True

    until(accepted, what="a sidecar answers")


def refusal(objects: clients.Objects, policy: dict[str, Any]) -> str:
    with pytest.raises(Refused) as refused:
        objects.apply(policy)
    return str(refused.value)


@contextmanager
def unasked(objects: clients.Objects) -> Iterator[None]:
    """Without the webhook, as if an administrator had deleted it."""
    webhook = objects.get(*WEBHOOK)
    assert webhook is not None
    objects.delete(*WEBHOOK)
    try:
        yield
    finally:
        metadata = {key: webhook["metadata"][key] for key in ("name", "labels")}
        objects.apply({**webhook, "metadata": metadata})
        unknown = manifest("probe", "package probe\nx := unknown(1)")
        until(lambda: not allowed(objects, unknown), what="the webhook is back")


def allowed(objects: clients.Objects, policy: dict[str, Any]) -> bool:
    """Whether a dry run lets the policy in."""
    try:
        objects.apply(policy, dry_run=True)
    except Refused:
        return False
    return True


def until_condition(
    objects: clients.Objects, name: str, type_: str, status: str, *, installed: str = "2/2"
) -> dict[str, Any]:
    """The status of the policy once it is about the current spec, and has this condition."""
    seen: dict[str, Any] = {}

    def matches() -> bool:
        policy = objects.get(API_VERSION, KIND, name) or {}
        seen.clear()
        seen.update(policy.get("status") or {})
        conditions = {each["type"]: each["status"] for each in seen.get("conditions") or ()}
        return (
            seen.get("observedGeneration") == policy["metadata"]["generation"]
            and conditions.get(type_) == status
            and seen.get("installed") == installed
        )

    until(matches, what=f"{name} is {type_} {status}: {seen}")
    return seen


def answers(two: EmbeddedCluster, *path: str) -> list[Any]:
    """The document at `path` in each OPA."""
    credentials = deployed_state.credentials(two.objects())
    assert credentials is not None
    documents = []
    for opa in two.opas():
        api = OpaApi(opa.url, ca=opa.ca, token=credentials.token)
        documents.append(api.document(path))
        api.close()
    return documents


def condition(status: dict[str, Any], type_: str) -> dict[str, Any]:
    (found,) = [each for each in status["conditions"] if each["type"] == type_]
    return dict(found)


def test_a_policy_is_installed_on_both_opas_changed_and_removed(
    two: EmbeddedCluster, objects: clients.Objects
) -> None:
    objects.apply(manifest("teams", TEAMS, limit=7))
    status = until_condition(objects, "teams", "Ready", "True")
    assert answers(two, "teams", "limit") == [7, 7]
    assert status["package"] == "teams"
    assert len(status["revision"]) == 12
    assert {entry["revision"] for entry in status["opas"].values()} == {status["revision"]}
    ready = condition(status, "Ready")
    assert ready.keys() == {
        "type", "status", "observedGeneration", "lastTransitionTime", "reason", "message",
    }  # fmt: skip
    assert ready["reason"] == "Installed"
    row = next(row for row in policy_list.listed(objects) if row["name"] == "teams")
    assert (row["kind"], row["status"], row["installed"]) == (KIND, "ok", "2/2")
    objects.apply(manifest("teams", TEAMS))
    changed = until_condition(objects, "teams", "Ready", "True")
    assert answers(two, "teams", "limit") == [1, 1]
    assert changed["revision"] != status["revision"]
    objects.delete(API_VERSION, KIND, "teams")
    until(lambda: answers(two, "teams") == [None, None], what="it is unloaded")


def test_a_policy_that_does_not_compile_is_neither_created_nor_changed(
    two: EmbeddedCluster, objects: clients.Objects
) -> None:
    bad = "package teams\n\nx := unknown(1)\n"
    words = "PlacementPolicy teams: line 3: undefined function unknown"
    assert words in refusal(objects, manifest("teams", bad))
    assert objects.get(API_VERSION, KIND, "teams") is None
    objects.apply(manifest("teams", TEAMS))
    until_condition(objects, "teams", "Ready", "True")
    assert words in refusal(objects, manifest("teams", bad))
    assert "would hide" in refusal(objects, manifest("own", "package fairlead_sync\ninstance := 1"))
    user = manifest("user", "package user\n\nlimit := data.teams.limit + 1\n")
    assert allowed(objects, user)
    assert objects.get(API_VERSION, KIND, "user") is None
    assert answers(two, "teams", "limit") == [1, 1]


def test_many_policies_at_once_that_are_hard_to_compile_leave_the_sidecar_alone(
    two: EmbeddedCluster, objects: clients.Objects
) -> None:
    nested = "package deep\n\nx := " + "[" * 60_000 + "]" * 60_000
    before = [server.pid for server in two.sidecars()]
    with ThreadPoolExecutor(8) as pool:
        attempts = [
            pool.submit(refusal, two.objects(), manifest(f"deep-{number}", nested))
            for number in range(8)
        ]
        refusals = [attempt.result() for attempt in attempts]
    assert any("line 3: max parsing recursion depth exceeded" in refused for refused in refusals)
    applied(objects, manifest("teams", TEAMS))
    until_condition(objects, "teams", "Ready", "True")
    assert [server.pid for server in two.sidecars()] == before


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"Content-Encoding": "gzip"}, b"\x1f\x8b", 400),
        ({}, b"{" * 1000, 400),
        ({"Content-Length": "4000000"}, b"", 413),
        ({}, b'{"apiVersion": "admission.k8s.io/v1", "request": {"uid": "u"}}', 200),
    ],
)
def test_whoever_reaches_the_plugin_cannot_send_what_takes_too_much(
    two: EmbeddedCluster, headers: dict[str, str], body: bytes, status: int
) -> None:
    (opa, *_) = two.opas()
    context = ssl.create_default_context(cafile=str(opa.ca))
    connection = http.client.HTTPSConnection(
        opa.url.removeprefix("https://"), timeout=30, context=context
    )
    with closing(connection):
        connection.request("POST", POLICY_REVIEWS, body, headers)
        assert connection.getresponse().status == status


def test_a_policy_that_was_stored_unchecked_says_where_and_leaves_the_others_alone(
    two: EmbeddedCluster, objects: clients.Objects
) -> None:
    objects.apply(manifest("teams", TEAMS))
    bad = manifest("bad", "package bad\n\nx := unknown(1)\n")
    with unasked(objects):
        until(lambda: allowed(objects, bad), what="the webhook is gone")
        objects.apply(bad)
    until_condition(objects, "teams", "Ready", "True")
    status = until_condition(objects, "bad", "Ready", "False", installed="0/2")
    (error,) = status["errors"]
    assert error["line"] == 3
    assert "unknown" in error["message"]
    assert condition(status, "Ready")["reason"] == "Rejected"
    assert answers(two, "teams", "limit") == [1, 1]
    objects.apply(manifest("bad", "package bad\n\nx := 2\n"))
    assert until_condition(objects, "bad", "Ready", "True")["errors"] == []
    assert answers(two, "bad", "x") == [2, 2]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (manifest("none", "x := 1"), "names no package"),
        (manifest("opas-own", "# c\npackage  system\nmain := 1"), "what OPA itself decides by"),
        (manifest("below", "package system.authz\nallow := true"), "what OPA itself decides by"),
        (manifest("long", "package x\n" + "#" * 200_000), "200000"),
        (manifest("a" * 64, "package x"), "at most 63 characters"),
        ({**manifest("empty", ""), "spec": {}}, "spec.rego"),
    ],
)
def test_api_servers_refuse_what_the_schema_rules_out(
    objects: clients.Objects, policy: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused) as refused:
        objects.apply(policy)
    assert words in str(refused.value)


def test_of_two_policies_with_a_package_the_older_stays_in_force_until_it_is_gone(
    two: EmbeddedCluster, objects: clients.Objects
) -> None:
    objects.apply(manifest("b", TEAMS, limit=1))
    first = until_condition(objects, "b", "Ready", "True")
    assert condition(first, "Conflicting")["status"] == "False"
    # The order is by whole seconds, and then by name.
    objects.apply(manifest("c", TEAMS, limit=2))
    loser = until_condition(objects, "c", "Conflicting", "True", installed="0/2")
    winner = until_condition(objects, "b", "Conflicting", "True")
    assert "PlacementPolicy c" in condition(winner, "Conflicting")["message"]
    assert "PlacementPolicy b" in condition(loser, "Conflicting")["message"]
    assert condition(loser, "Ready")["reason"] == "PackageClaimed"
    assert answers(two, "teams", "limit") == [1, 1]
    objects.delete(API_VERSION, KIND, "b")
    until_condition(objects, "c", "Ready", "True")
    until_condition(objects, "c", "Conflicting", "False")
    assert answers(two, "teams", "limit") == [2, 2]


def test_the_status_shows_what_the_policy_decided_last_and_no_secrets(
    two: EmbeddedCluster, objects: clients.Objects
) -> None:
    deny = 'deny contains "too many, secret" if input.resource.spec.replicas > 3'
    objects.apply(manifest("limits", f"package team.limits\n\n{deny}\n"))
    until_condition(objects, "limits", "Ready", "True")
    credentials = deployed_state.credentials(objects)
    assert credentials is not None
    metadata = {"namespace": "team", "name": "web", "annotations": {"a": "secret"}}
    resource = {"kind": "Deployment", "metadata": metadata, "spec": {"replicas": 5}}
    (opa, *_) = two.opas()
    answer = requests.post(
        f"{opa.url}/v1/data/team/limits/deny",
        json={"input": {"resource": resource}},
        headers={"Authorization": f"Bearer {credentials.token}"},
        verify=str(opa.ca),
        timeout=30,
    )
    assert answer.json()["result"] == ["too many, secret"]

    def decision() -> dict[str, Any]:
        policy = objects.get(API_VERSION, KIND, "limits") or {}
        assert "secret" not in json.dumps(policy["status"])
        return dict(policy["status"].get("lastDecision") or {})

    until(lambda: bool(decision()), what="the status shows a decision")
    shown = decision()
    assert shown.pop("time")
    assert shown == {
        "outcome": "refused",
        "path": "team/limits/deny",
        "kind": "Deployment",
        "namespace": "team",
        "name": "web",
    }
    row = next(row for row in policy_list.listed(objects) if row["name"] == "limits")
    assert row["decided"].startswith("refused Deployment team/web at ")


@pytest.mark.parametrize("server", ["sidecar", "OPA"])
def test_a_restart_loads_the_policies_again(
    two: EmbeddedCluster, objects: clients.Objects, server: str
) -> None:
    objects.apply(manifest("teams", TEAMS, limit=3))
    until_condition(objects, "teams", "Ready", "True")
    (first, *_) = two.sidecars() if server == "sidecar" else two.opas()
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    applied(objects, manifest("teams", TEAMS, limit=4))
    until_condition(objects, "teams", "Ready", "True")
    assert answers(two, "teams", "limit") == [4, 4]


def test_a_tenant_with_rights_to_edit_changes_no_policy(
    two: EmbeddedCluster, objects: clients.Objects
) -> None:
    objects.apply(manifest("teams", TEAMS))
    rules = [{"apiGroups": [PARAMETERS_GROUP], "resources": ["*"], "verbs": ["*"]}]
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "all-policies"}}
    objects.apply({**role, "rules": rules})
    for name in ("edit", "all-policies"):
        objects.apply(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"tenant-{name}"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "tenant"}],
            }
        )
    tenant = clients.Objects(two.kubeconfig, user="tenant")
    path = f"/apis/{API_VERSION}/{RESOURCE}/teams/status"

    for attempt in (
        lambda: tenant.apply(manifest("mine", "package mine")),
        lambda: tenant.apply(manifest("teams", "package teams")),
        lambda: tenant.delete(API_VERSION, KIND, "teams"),
    ):
        with pytest.raises(Refused) as refused:
            attempt()
        assert "may not change PlacementPolicy" in str(refused.value)
    with pytest.raises(Refused) as refused:
        tenant.call(
            "PATCH", path, {"status": {"installed": "9/9"}}, content_type=api_requests.MERGE
        )
    assert refused.value.status == 403
    assert until_condition(objects, "teams", "Ready", "True")["installed"] == "2/2"

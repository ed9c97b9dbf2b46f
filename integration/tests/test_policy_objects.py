"""PlacementPolicies on a real API server, with two OPAs and their sidecars."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.deployment.names import PARAMETERS_GROUP, PLACEMENT_POLICIES
from fairlead.kube import clients, transport
from fairlead.kube.errors import Refused
from fairlead.opa.api import OpaApi
from fairlead.operations import deployed_state, policy_list
from fairlead.operations.up import started
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it has settings of its own, and kills processes")

RESOURCE, KIND, VERSION = PLACEMENT_POLICIES
API_VERSION = f"{PARAMETERS_GROUP}/{VERSION}"
RBAC = "rbac.authorization.k8s.io"
PATIENCE = 120.0
TEAMS = 'package teams\n\ndefault parameters := {"limit": 1}\n\nlimit := parameters.limit\n'


@pytest.fixture(scope="module")
def two() -> Iterator[EmbeddedCluster]:
    """A cluster with two OPAs, which ends with this process in any case."""
    settings = Settings(placement_policies=True)
    name = f"policies-{os.getpid()}"
    with started(name, settings, {"pool1": 1}, replicas=2, progress=Progress()) as cluster:
        yield cluster


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


def until(
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

    waiting.until(matches, deadline=PATIENCE, what=f"{name} is {type_} {status}: {seen}")
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
    status = until(objects, "teams", "Ready", "True")
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
    changed = until(objects, "teams", "Ready", "True")
    assert answers(two, "teams", "limit") == [1, 1]
    assert changed["revision"] != status["revision"]
    objects.delete(API_VERSION, KIND, "teams")
    waiting.until(
        lambda: answers(two, "teams") == [None, None], deadline=PATIENCE, what="it is unloaded"
    )


def test_a_policy_that_does_not_compile_says_where_and_leaves_the_others_alone(
    two: EmbeddedCluster, objects: clients.Objects
) -> None:
    objects.apply(manifest("teams", TEAMS))
    objects.apply(manifest("bad", "package bad\n\nx := unknown(1)\n"))
    until(objects, "teams", "Ready", "True")
    status = until(objects, "bad", "Ready", "False", installed="0/2")
    (error,) = status["errors"]
    assert error["line"] == 3
    assert "unknown" in error["message"]
    assert condition(status, "Ready")["reason"] == "Rejected"
    assert answers(two, "teams", "limit") == [1, 1]
    objects.apply(manifest("bad", "package bad\n\nx := 2\n"))
    assert until(objects, "bad", "Ready", "True")["errors"] == []
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
    first = until(objects, "b", "Ready", "True")
    assert condition(first, "Conflicting")["status"] == "False"
    # The order is by whole seconds, and then by name.
    objects.apply(manifest("c", TEAMS, limit=2))
    loser = until(objects, "c", "Conflicting", "True", installed="0/2")
    winner = until(objects, "b", "Conflicting", "True")
    assert "PlacementPolicy c" in condition(winner, "Conflicting")["message"]
    assert "PlacementPolicy b" in condition(loser, "Conflicting")["message"]
    assert condition(loser, "Ready")["reason"] == "PackageClaimed"
    assert answers(two, "teams", "limit") == [1, 1]
    objects.delete(API_VERSION, KIND, "b")
    until(objects, "c", "Ready", "True")
    until(objects, "c", "Conflicting", "False")
    assert answers(two, "teams", "limit") == [2, 2]


@pytest.mark.parametrize("server", ["sidecar", "OPA"])
def test_a_restart_loads_the_policies_again(
    two: EmbeddedCluster, objects: clients.Objects, server: str
) -> None:
    objects.apply(manifest("teams", TEAMS, limit=3))
    until(objects, "teams", "Ready", "True")
    (first, *_) = two.sidecars() if server == "sidecar" else two.opas()
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    objects.apply(manifest("teams", TEAMS, limit=4))
    until(objects, "teams", "Ready", "True")
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
    api = clients.connect(two.kubeconfig)
    api.set_default_header("Impersonate-User", "tenant")
    tenant = clients.Objects(api)
    path = f"/apis/{API_VERSION}/{RESOURCE}/teams/status"
    merge = {"Content-Type": "application/merge-patch+json"}

    for attempt in (
        lambda: tenant.apply(manifest("mine", "package mine")),
        lambda: tenant.apply(manifest("teams", "package teams")),
        lambda: tenant.delete(API_VERSION, KIND, "teams"),
    ):
        with pytest.raises(Refused) as refused:
            attempt()
        assert "may not change PlacementPolicy" in str(refused.value)
    headers = {**merge, "Impersonate-User": "tenant"}
    body = '{"status": {"installed": "9/9"}}'
    within = urllib3.Timeout(10)
    answer = transport.send(
        api, "PATCH", path, query={}, headers=headers, body=body, timeout=within
    )
    assert answer.status == 403
    assert until(objects, "teams", "Ready", "True")["installed"] == "2/2"

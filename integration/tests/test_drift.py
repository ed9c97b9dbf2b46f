"""`fairlead status` and `fairlead push` report webhooks, guards and rights that are not as
deployed."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import command_line
import pytest

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.deployment.credentials import Tls
from fairlead.kube import clients
from fairlead.operations import deploy, drift, push, rotate
from fairlead.operations.drift import AS_DEPLOYED, DIFFERS, MISSING, Compared
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["processes"]

pytestmark = pytest.mark.embedded("it breaks what protects the cluster")

ADMISSION = "admissionregistration.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io/v1"
MUTATING = (ADMISSION, "MutatingWebhookConfiguration", "fairlead")
VALIDATING = (ADMISSION, "ValidatingWebhookConfiguration", "fairlead")
FINAL_STATE = "final-state.node-pool.fairlead.dev"
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def restored(cluster: EmbeddedCluster) -> Iterator[None]:
    """Everything is deployed again after the test."""
    yield
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())
    assert changed(cluster, cluster.objects()) == []


def changed(cluster: EmbeddedCluster, objects: clients.Objects) -> list[Compared]:
    comparison = drift.compare(cluster, objects)
    assert comparison.error is None
    return [entry for entry in comparison.objects if entry.state != AS_DEPLOYED]


def fairlead(cluster: EmbeddedCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command_line.fairlead(*arguments, "--name", cluster.name)


def change(objects: clients.Objects, version: str, kind: str, name: str, edit: Change) -> None:
    """Change the object as an administrator does who knows nothing of Fairlead."""
    live = objects.get(version, kind, name)
    assert live
    edit(live)
    patch = {field: live[field] for field in ("webhooks", "spec", "rules") if field in live}
    objects.merge(live, patch)


def test_a_deployment_is_as_deployed(cluster: EmbeddedCluster, objects: clients.Objects) -> None:
    compared = drift.compare(cluster, objects).objects
    assert changed(cluster, objects) == []
    assert {entry.kind for entry in compared} == set(drift.COMPARED) - set(drift.MUTATING)
    policies = {entry.kind: entry.failure_policy for entry in compared if entry.failure_policy}
    assert policies["MutatingWebhookConfiguration"] == "Fail"
    asked = fairlead(cluster, "status")
    assert asked.returncode == 0, asked.stdout
    assert "mutating webhooks" in asked.stdout


def ignoring(webhooks: dict[str, Any]) -> None:
    webhooks["webhooks"][0]["failurePolicy"] = "Ignore"


def exempting(webhooks: dict[str, Any]) -> None:
    webhooks["webhooks"][0]["objectSelector"] = {"matchLabels": {"mine": "no"}}


def elsewhere(webhooks: dict[str, Any]) -> None:
    webhooks["webhooks"][0]["clientConfig"]["url"] = "https://127.0.0.1:1/"


def distrusting(webhooks: dict[str, Any]) -> None:
    bundle = base64.b64encode(Tls.fresh().ca).decode()
    webhooks["webhooks"][0]["clientConfig"]["caBundle"] = bundle


def excepting(webhooks: dict[str, Any]) -> None:
    webhooks["webhooks"][0]["matchConditions"] = [{"name": "nobody", "expression": "false"}]


def excepting_more(webhooks: dict[str, Any]) -> None:
    webhooks["webhooks"][1]["matchConditions"].append({"name": "nobody", "expression": "false"})


def with_another(webhooks: dict[str, Any]) -> None:
    webhooks["webhooks"].append({**webhooks["webhooks"][0], "name": "another.example.com"})


def without_one(webhooks: dict[str, Any]) -> None:
    del webhooks["webhooks"][0]


def warning_only(binding: dict[str, Any]) -> None:
    binding["spec"]["validationActions"] = ["Warn"]


def unenforced(guard: dict[str, Any]) -> None:
    guard["spec"]["failurePolicy"] = "Ignore"


def more_rights(role: dict[str, Any]) -> None:
    role["rules"].append({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]})


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("changing", "edit", "field"),
    [
        (MUTATING, ignoring, "webhooks[node-pool.fairlead.dev].failurePolicy"),
        (MUTATING, exempting, "webhooks[node-pool.fairlead.dev].objectSelector"),
        (MUTATING, excepting, "webhooks[node-pool.fairlead.dev].matchConditions"),
        (
            MUTATING,
            excepting_more,
            "webhooks[updates.node-pool.fairlead.dev].matchConditions[nobody]",
        ),
        (MUTATING, with_another, "webhooks[another.example.com]"),
        (VALIDATING, elsewhere, f"webhooks[{FINAL_STATE}].clientConfig.url"),
        (
            VALIDATING,
            distrusting,
            f"webhooks[{FINAL_STATE}].clientConfig.caBundle",
        ),
        (VALIDATING, without_one, f"webhooks[{FINAL_STATE}]"),
        (
            (ADMISSION, "ValidatingAdmissionPolicyBinding", "fairlead-objects"),
            warning_only,
            "spec.validationActions[0]",
        ),
        (
            (ADMISSION, "ValidatingAdmissionPolicy", "fairlead-objects"),
            unenforced,
            "spec.failurePolicy",
        ),
        ((RBAC, "ClusterRole", "fairlead-opa"), more_rights, "rules"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_a_change_is_named(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    changing: tuple[str, str, str],
    edit: Change,
    field: str,
) -> None:
    with rotate.alone(cluster):  # the controller brings the CA back
        change(objects, *changing, edit)
        (entry,) = changed(cluster, objects)
    assert (entry.kind, entry.name, entry.state) == (*changing[1:], DIFFERS)
    assert entry.fields == (field,)


@pytest.mark.usefixtures("restored")
def test_without_webhooks_status_fails_and_a_push_warns(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    namespace: Callable[..., str],
    pod: Callable[..., dict[str, Any]],
) -> None:
    for webhooks in (MUTATING, VALIDATING):
        objects.delete(*webhooks)
    created = objects.create(pod(namespace(agentpool="pool1")))
    assert "nodeSelector" not in created["spec"], "the API server asks nobody"
    asked = fairlead(cluster, "status", "-o", "json")
    assert asked.returncode == 1
    report = json.loads(asked.stdout)
    assert [entry["kind"] for entry in report["objects"] if entry["state"] == MISSING] == [
        MUTATING[1],
        VALIDATING[1],
    ]
    unplaced = "no webhook is left, so that API servers do not ask OPA: pods are created unplaced"
    assert unplaced in report["problems"]
    pushed = fairlead(cluster, "push")
    assert pushed.returncode == 0
    assert f"warning: {unplaced}" in pushed.stderr
    assert "MutatingWebhookConfiguration fairlead is missing" in pushed.stderr


@pytest.mark.usefixtures("restored")
def test_a_binding_to_another_role_is_replaced(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    """The role of a binding is immutable."""
    binding = objects.get(RBAC, "ClusterRoleBinding", "fairlead-opa")
    assert binding
    objects.delete(RBAC, "ClusterRoleBinding", "fairlead-opa")
    metadata = {"name": "fairlead-opa", "labels": binding["metadata"].get("labels")}
    role = {**binding["roleRef"], "name": "cluster-admin"}
    objects.create({**binding, "metadata": metadata, "roleRef": role})
    (entry,) = changed(cluster, objects)
    assert entry.fields == ("roleRef.name",)


@pytest.mark.usefixtures("restored")
def test_settings_that_nobody_can_read_are_no_silence(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    policies = objects.get("v1", "ConfigMap", "fairlead-policies", "fairlead")
    assert policies
    annotations = {"fairlead.dev/settings": '{"of": "a later version"}'}
    objects.merge(policies, {"metadata": {"annotations": annotations}})
    error = drift.compare(cluster, objects).error
    assert error
    assert "fairlead.dev/settings" in error


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("chosen", [{"contact": "#platform"}, {"nodeLabel": "pool"}])
def test_a_push_of_a_setting_brings_the_guards_that_name_it(
    cluster: EmbeddedCluster, objects: clients.Objects, chosen: dict[str, Any]
) -> None:
    settings = Settings.model_validate(chosen)
    result = push.push(cluster, PolicySet.load(settings), progress=Progress())
    assert result["warnings"] == []
    assert changed(cluster, objects) == []

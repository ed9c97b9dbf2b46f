"""`fairlead deploy` says what became of each object. `fairlead deploy --diff` and `fairlead diff
--objects` say what would."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command_line
import pytest

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.names import REVISION_ANNOTATION, SETTINGS_ANNOTATION
from fairlead.kube import clients
from fairlead.operations import deploy, drift
from fairlead.operations.applying import Applier
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it changes objects that the other tests need")

RIGHTS = "rbac.authorization.k8s.io/v1"
ADMISSION = "admissionregistration.k8s.io/v1"
WEBHOOKS = "mutatingwebhookconfiguration/fairlead"
POLICIES = "configmap/fairlead-policies"


@pytest.fixture
def restored(cluster: EmbeddedCluster) -> Iterator[None]:
    """Everything is deployed again after the test."""
    yield
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())


@pytest.fixture
def changed_settings(tmp_path: Path) -> str:
    path = tmp_path / "fairlead.yaml"
    path.write_text("contact: '#platform'\nmaxStaleness: 60\n")
    return str(path)


def fairlead(cluster: EmbeddedCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command_line.fairlead(*arguments, "--name", cluster.name)


def actions(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The action of each object, by kind and name, of `-o json`."""
    return {f"{row['kind']}/{row['name']}": row["action"] for row in json.loads(done.stdout)}


def fields(done: subprocess.CompletedProcess[str], kind: str) -> dict[str, tuple[Any, Any]]:
    """The changed fields of the objects of a kind: path -> old and new value."""
    return {
        field["path"]: (field.get("old"), field.get("new"))
        for row in json.loads(done.stdout)
        if row["kind"] == kind
        for field in row["fields"]
    }


def applied_by_deployments(objects: clients.Objects) -> list[dict[str, Any]]:
    """What deployments applied of the policies, and when. The sidecar writes its status beside."""
    config_map = objects.get("v1", "ConfigMap", "fairlead-policies", "fairlead") or {}
    fields = config_map["metadata"]["managedFields"]
    return [entry for entry in fields if entry["manager"] == clients.FIELD_MANAGER]


@pytest.mark.usefixtures("restored")
def test_a_plan_of_what_is_deployed_is_empty_and_so_is_its_repetition(
    cluster: EmbeddedCluster,
) -> None:
    planned = fairlead(cluster, "diff", "--objects", "-o", "json")
    assert planned.returncode == 0, planned.stdout
    assert set(actions(planned).values()) == {"unchanged"}
    assert {"ConfigMap/fairlead-policies", "Secret/opa-token", "Deployment/opa"} <= set(
        actions(planned)
    )
    applied = fairlead(cluster, "deploy", "-o", "json")
    assert actions(applied) == actions(planned)
    assert (
        "until all API servers" not in applied.stderr
    )  # nothing leaves for which they are awaited


@pytest.mark.usefixtures("restored")
def test_a_plan_names_the_fields_that_a_deployment_then_changes(
    cluster: EmbeddedCluster, changed_settings: str
) -> None:
    flags = ("--settings", changed_settings)
    planned = fairlead(cluster, "diff", "--objects", *flags, "-o", "json")
    assert planned.returncode == 1
    changed = {name for name, action in actions(planned).items() if action == "changed"}
    assert {
        "ConfigMap/fairlead-policies",
        "Deployment/opa",
        "ValidatingAdmissionPolicy/fairlead-objects",
    } <= changed
    assert set(actions(planned).values()) == {"changed", "unchanged"}
    of_policies = fields(planned, "ConfigMap")
    settings = "metadata.annotations[fairlead.dev/settings]"
    assert of_policies[f"{settings}.contact"] == (None, "#platform")
    assert [path for path in of_policies if path.startswith("data")] == ["data[settings.rego]"], (
        "the name of a revision, which all modules have, is not a difference"
    )
    assert list(fields(planned, "Deployment")) == ["spec.template.spec.containers[sync].args"]
    applied = fairlead(cluster, "deploy", *flags, "-o", "json")
    assert applied.returncode == 0, applied.stderr
    assert {name for name, action in actions(applied).items() if action == "configured"} == changed
    assert fairlead(cluster, "diff", "--objects", *flags).returncode == 0


@pytest.mark.usefixtures("restored")
def test_what_others_changed_or_removed_is_planned_and_then_restored(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    live = objects.get(ADMISSION, "MutatingWebhookConfiguration", "fairlead")
    assert live
    webhook = next(webhook for webhook in live["webhooks"] if "matchConditions" in webhook)
    webhook["failurePolicy"] = "Ignore"
    webhook["matchConditions"].append({"name": "nobody", "expression": "false"})
    objects.merge(live, {"webhooks": live["webhooks"]})
    objects.delete("v1", "Service", "opa", "fairlead")
    policies = objects.get("v1", "ConfigMap", "fairlead-policies", "fairlead")
    assert policies
    objects.merge(policies, {"data": {"mine": "nothing"}})
    planned = fairlead(cluster, "diff", "--objects", "-o", "json")
    assert {name: action for name, action in actions(planned).items() if action != "unchanged"} == {
        "ConfigMap/fairlead-policies": "changed",
        "Service/opa": "created",
        "MutatingWebhookConfiguration/fairlead": "changed",
    }
    assert fields(planned, "ConfigMap") == {"data.mine": ("nothing", None)}
    name = webhook["name"]
    assert fields(planned, "MutatingWebhookConfiguration") == {
        f"webhooks[{name}].failurePolicy": ("Ignore", "Fail"),
        f"webhooks[{name}].matchConditions[nobody]": (
            {"name": "nobody", "expression": "false"},
            None,
        ),
    }
    applied = fairlead(cluster, "deploy")
    assert applied.returncode == 0, applied.stderr
    lines = applied.stdout.splitlines()
    assert {f"{POLICIES} configured", "service/opa created", f"{WEBHOOKS} configured"} <= set(lines)
    assert "namespace/fairlead unchanged" in lines
    assert fairlead(cluster, "diff", "--objects").returncode == 0


@pytest.mark.usefixtures("restored")
def test_what_is_applied_is_applied_again_only_if_it_is_not_ours_as_it_stands(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    kind, name = "ClusterRole", "fairlead-opa"
    fresh = objects.get(RIGHTS, kind, name)
    assert fresh is not None
    labels = fresh["metadata"].get("labels") or {}
    manifest = {
        "apiVersion": RIGHTS,
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "rules": fresh["rules"],
    }
    assert drift.is_applied(manifest, fresh)
    extra = {"labels": {**labels, "extra": "x"}}
    assert not drift.is_applied({**manifest, "metadata": {"name": name, **extra}}, fresh)
    assert not drift.is_applied({**manifest, "rules": []}, fresh)

    objects.apply({**manifest, "metadata": {"name": name, **extra}})  # as an earlier version did
    assert not drift.is_applied(manifest, objects.get(RIGHTS, kind, name) or {})
    Applier(objects).apply(manifest)
    live = objects.get(RIGHTS, kind, name) or {}
    assert "extra" not in (live["metadata"].get("labels") or {})
    assert drift.is_applied(manifest, live)

    objects.merge(manifest, {"metadata": {"labels": {"theirs": "y"}}})
    live = objects.get(RIGHTS, kind, name) or {}
    assert drift.is_applied(manifest, live)
    objects.merge(manifest, {"rules": []})
    assert not drift.is_applied(manifest, objects.get(RIGHTS, kind, name) or {})


@pytest.mark.usefixtures("restored")
def test_modules_that_somebody_renamed_are_restored(objects: clients.Objects) -> None:
    def live() -> dict[str, Any]:
        return objects.get("v1", "ConfigMap", "fairlead-policies", "fairlead") or {}

    before = live()
    own = (REVISION_ANNOTATION, SETTINGS_ANNOTATION)
    manifest = manifests.policies_of(
        before["data"], {key: before["metadata"]["annotations"][key] for key in own}
    )
    renamed = {re.sub("^[0-9a-f]{12}", "0" * 12, key): text for key, text in before["data"].items()}
    objects.merge(before, {"data": {**dict.fromkeys(before["data"]), **renamed}})
    assert live()["data"] == renamed != before["data"]
    Applier(objects).apply(manifest)
    assert live()["data"] == before["data"]


def test_values_of_secrets_are_never_shown(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    secret = objects.get("v1", "Secret", "opa-token", "fairlead")
    assert secret
    objects.merge(secret, {"data": {"authz.rego": "c2VjcmV0"}})
    for form in ("table", "json", "yaml"):
        planned = fairlead(cluster, "diff", "--objects", "-o", form)
        assert planned.returncode == 1
        assert "data[authz.rego]" in planned.stdout
        for text in ("c2VjcmV0", *secret["data"].values()):
            assert text not in planned.stdout
    assert fields(fairlead(cluster, "diff", "--objects", "-o", "json"), "Secret") == {
        "data[authz.rego]": (None, None)
    }


@pytest.mark.usefixtures("restored")
def test_a_dry_run_with_diff_changes_nothing(
    cluster: EmbeddedCluster, objects: clients.Objects, changed_settings: str
) -> None:
    before = applied_by_deployments(objects)
    shown = fairlead(cluster, "deploy", "--diff", "--dry-run", "--settings", changed_settings)
    assert shown.returncode == 0, shown.stderr
    assert f"{POLICIES} changed" in shown.stdout
    assert "    data[settings.rego]: 1 line added, 1 removed" in shown.stdout
    assert before
    assert applied_by_deployments(objects) == before


@pytest.mark.usefixtures("restored")
def test_on_a_terminal_a_diff_is_followed_by_a_question(
    cluster: EmbeddedCluster, objects: clients.Objects, changed_settings: str
) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"n\n")
        flags = ("--diff", "--settings", changed_settings)
        argv = [sys.executable, "-m", "fairlead", "deploy", *flags, "--name", cluster.name]
        refused = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=120, stdin=theirs
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert refused.returncode == 1
    assert f"{POLICIES} changed" in refused.stdout
    assert f"Deploy into it (cluster {cluster.name})?" in refused.stderr
    assert "nothing was changed" in refused.stderr
    assert (
        deploy.plan(cluster, PolicySet.load(Settings()), progress=Progress())[0].action
        == "unchanged"
    )
    assert fairlead(cluster, "diff", "--objects").returncode == 0


def test_who_may_only_read_gets_a_comparison_without_a_dry_run(
    cluster: EmbeddedCluster, objects: clients.Objects, tmp_path: Path
) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "plan-reader"}}
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}
    account = {"name": "plan-reader", "namespace": "default"}
    objects.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    objects.apply({**role, "kind": "ClusterRole", "rules": [rule]})
    objects.apply(
        {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "plan-reader",
            },
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
    )
    path = tmp_path / "kubeconfig"
    cluster.service_account_kubeconfig("default", "plan-reader", path)

    class Reader(EmbeddedCluster):
        """The same cluster for somebody who may not change anything."""

        def objects(self) -> clients.Objects:
            return clients.Objects(path)

    reader = Reader(cluster.name)
    outcomes = deploy.plan(reader, PolicySet.load(Settings()), progress=Progress())
    assert {outcome.action for outcome in outcomes} == {"unchanged"}
    assert all("403" in str(outcome.note) for outcome in outcomes)
    changed = deploy.plan(
        reader, PolicySet.load(Settings(contact="#platform")), progress=Progress()
    )
    policies = next(outcome for outcome in changed if outcome.reference == POLICIES)
    assert policies.action == "changed"

"""All missing prerequisites of a cluster are reported at once, before anything is applied, by the
API server's own answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command_line
import pytest
from foreign import Foreign
from waits import until

from fairlead.clusters import remote
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE
from fairlead.kube import clients
from fairlead.operations import deploy, preflight
from fairlead.operations.preflight import Finding
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["foreign"]
pytestmark = pytest.mark.embedded("its nodes are simulated")

_WEBHOOK = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")


@pytest.fixture(scope="module")
def foreign(undeployed: Foreign) -> Foreign:
    return undeployed


@pytest.fixture
def admin(foreign: Foreign) -> Iterator[remote.RemoteCluster]:
    """The cluster as its administrator sees it."""
    cluster = remote.RemoteCluster(foreign.context, foreign.kubeconfig)
    yield cluster
    cluster.stop()


def missing(cluster: remote.RemoteCluster) -> dict[str, list[str]]:
    details: dict[str, list[str]] = {}
    for finding in deploy.check(cluster, PolicySet.load(Settings()), progress=Progress()):
        if not finding.ok:
            details.setdefault(finding.check, []).append(finding.detail)
    return details


def limited(
    foreign: Foreign, folder: Path, name: str, rules: list[dict[str, Any]]
) -> remote.RemoteCluster:
    """The cluster as a user with exactly these rights sees it."""
    objects, rbac = foreign.objects(), "rbac.authorization.k8s.io"
    metadata = {"name": name}
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {**metadata, "namespace": "default"},
        }
    )
    objects.apply(
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    )
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": name}
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": role,
        "subjects": subjects,
    }
    objects.apply({"apiVersion": f"{rbac}/v1", **binding})
    foreign.service_account_kubeconfig("default", name, folder / "kubeconfig")
    return remote.RemoteCluster(name, folder / "kubeconfig")


def test_an_administrator_lacks_nothing_and_nothing_changes(
    foreign: Foreign, admin: remote.RemoteCluster
) -> None:
    findings = deploy.check(admin, PolicySet.load(Settings()), progress=Progress())
    assert [(finding.check, finding.ok) for finding in findings] == [
        ("version", True),
        ("api", True),
        ("rights", True),
        ("namespace", True),
        ("nodes", True),
    ]
    assert foreign.objects().get("v1", "Namespace", NAMESPACE) is None


@pytest.mark.parametrize(
    ("image", "ok"),
    {
        "openpolicyagent/opa:1.22.3": False,
        "registry.example.com:5000/mirror/opa@sha256:" + "a" * 64: False,
        "registry.example.com/fairlead:0.1.0": True,
        "registry.example.com/fairlead-opa:0.1.0": True,
    }.items(),
)
def test_an_opa_without_the_plugin_is_told(
    admin: remote.RemoteCluster, image: str, ok: bool
) -> None:
    settings = Settings.model_validate({"images": {"opa": image}})
    problems = [
        finding.detail
        for finding in deploy.check(admin, PolicySet.load(settings), progress=Progress())
        if finding.check == "images"
    ]
    assert problems == (
        []
        if ok
        else [
            f"images.opa is {image}, which lacks Fairlead's plugin for OPA: leave the setting out, "
            "as the image fairlead:0.1.0 has both, or name a copy of that image"
        ]
    )


def test_a_certificate_that_kubelets_cannot_renew_in_time_is_told(
    foreign: Foreign, admin: remote.RemoteCluster
) -> None:
    for life, ok in {"14m": False, "15m": True}.items():
        settings = Settings.model_validate({"certificates": {"life": life}})
        findings = {
            f.check: f.detail
            for f in deploy.check(admin, PolicySet.load(settings), progress=Progress())
            if not f.ok
        }
        assert findings.keys() == (set() if ok else {"certificates"})
        if not ok:
            assert "at least 15m" in findings["certificates"]
    settings = Settings.model_validate({"certificates": {"life": "1m"}})
    with pytest.raises(FairleadError, match="at least 15m"):
        deploy.deploy(admin, PolicySet.load(settings), progress=Progress())
    assert foreign.objects().get("v1", "Namespace", NAMESPACE) is None


def test_the_command_tells_the_same_and_exits_by_it(foreign: Foreign, tmp_path: Path) -> None:
    reader = limited(foreign, tmp_path, "nobody", [])
    for kubeconfig, code in {foreign.kubeconfig: 0, reader.kubeconfig: 1}.items():
        argv = [
            "deploy",
            "--check",
            "-o",
            "json",
            "--cluster",
            "context",
            "--kubeconfig",
            str(kubeconfig),
        ]
        done = command_line.fairlead(*argv, "--sidecar", "sync")
        assert (done.returncode, done.stderr) == (code, "")
        findings = json.loads(done.stdout)
        assert all(finding.keys() == {"check", "ok", "detail"} for finding in findings)
        assert all(finding["ok"] for finding in findings) == (code == 0)


KINDS: list[dict[str, Any]] = [
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["list", "watch"],
    },
    {"apiGroups": ["policy.fairlead.dev"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": ["fairlead.dev"], "resources": ["exceptions"], "verbs": ["grant"]},
    {"apiGroups": ["batch"], "resources": ["*"], "verbs": ["list"]},
    {"apiGroups": ["openreports.io", "wgpolicyk8s.io"], "resources": ["*"], "verbs": ["*"]},
]
"""What the controller may do with settings, policies, their kinds and findings, and what lets
people make exceptions."""


def test_each_missing_right_is_told_in_one_go_and_nothing_is_applied(
    foreign: Foreign, tmp_path: Path
) -> None:
    groups = ["", "apps", "coordination.k8s.io", "policy", "networking.k8s.io"]
    every = {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}
    roles = {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["*"],
        "verbs": ["get", "create", "patch"],
    }
    hooks = {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["get"]}
    reader = limited(foreign, tmp_path, "reader", [every, roles, hooks, *KINDS])
    hook = "admissionregistration.k8s.io (whole cluster): ask an administrator to grant them"
    assert missing(reader)["rights"] == [
        "you lack get, create, patch on customresourcedefinitions.apiextensions.k8s.io (whole "
        "cluster): ask an administrator to grant them",
        f"you lack create, patch on validatingadmissionpolicies.{hook}",
        f"you lack create, patch on validatingadmissionpolicybindings.{hook}",
        f"you lack create, patch, delete on mutatingwebhookconfigurations.{hook}",
        f"you lack create, patch on validatingwebhookconfigurations.{hook}",
        "you lack administer on policies.fairlead.dev (whole cluster): ask an administrator to "
        "grant them",
        "you lack place on namespaces.fairlead.dev (whole cluster), which Fairlead's roles grant: "
        "ask an administrator to grant it, or the verb escalate on roles and clusterroles",
    ]
    with pytest.raises(
        FairleadError,
        match=r"nothing was applied:\n  rights: you lack get, create, patch on customresource",
    ):
        deploy.deploy(reader, PolicySet.load(Settings()), sidecar="sync", progress=Progress())
    assert foreign.objects().get("v1", "Namespace", NAMESPACE) is None


def test_rights_that_cannot_be_handed_on_are_told(foreign: Foreign, tmp_path: Path) -> None:
    """RBAC refuses a role with more rights than its creator has, unless the creator has the verb
    escalate.
    """
    groups = ["apps", "coordination.k8s.io", "policy", "networking.k8s.io"]
    groups += ["admissionregistration.k8s.io", "rbac.authorization.k8s.io"]
    ours = {"apiGroups": ["fairlead.dev"], "resources": ["policies"], "verbs": ["administer"]}
    most = {
        "apiGroups": groups,
        "resources": ["*"],
        "verbs": ["get", "create", "patch", "delete", "list"],
    }
    core = {
        "apiGroups": [""],
        "resources": ["*"],
        "verbs": ["get", "create", "patch", "delete", "list"],
    }
    definitions = {**KINDS[0], "verbs": ["get", "create", "patch", *KINDS[0]["verbs"]]}
    most_of_all = [most, core, ours, definitions, *KINDS[1:]]
    lacking = missing(limited(foreign, tmp_path, "maker", most_of_all))
    assert lacking == {
        "rights": [
            f"you lack {what}, which Fairlead's roles grant: ask an administrator to grant it, or "
            "the verb escalate on roles and clusterroles"
            for what in (
                "watch on configmaps in namespace fairlead",
                "watch on namespaces (whole cluster)",
                "place on namespaces.fairlead.dev (whole cluster)",
            )
        ]
    }
    roles = {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "clusterroles"],
        "verbs": ["escalate"],
    }
    assert missing(limited(foreign, tmp_path, "maker", [*most_of_all, roles])) == {}


def test_a_namespace_that_refuses_our_pods_is_told(
    foreign: Foreign, admin: remote.RemoteCluster
) -> None:
    objects = foreign.objects()
    objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    metadata = {"name": "tight", "namespace": NAMESPACE}
    spec = {"hard": {"limits.cpu": "1"}}
    objects.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec})
    try:
        lacking = until(lambda: missing(admin), what="the quota is in force")
        assert list(lacking) == ["namespace"]
        assert "must specify limits.cpu" in lacking["namespace"][0]
    finally:
        objects.delete("v1", "Namespace", NAMESPACE)
        until(
            lambda: objects.get("v1", "Namespace", NAMESPACE) is None, what="the namespace is gone"
        )


@pytest.mark.parametrize(
    ("major", "minor", "ok"),
    [("1", "29", False), ("1", "30", True), ("1", "31+", True), ("2", "0", True)],
)
def test_the_version_is_one_that_has_what_is_used(
    foreign: Foreign, monkeypatch: pytest.MonkeyPatch, major: str, minor: str, ok: bool
) -> None:
    version = {"major": major, "minor": minor, "gitVersion": f"v{major}.{minor}.0"}
    objects = foreign.objects()
    monkeypatch.setattr(objects, "call", lambda *_, **named: version)
    finding = preflight._version(objects)
    assert finding.ok is ok
    assert version["gitVersion"] in finding.detail


def test_a_kind_that_is_not_served_is_told(foreign: Foreign) -> None:
    kinds = clients.Objects(foreign.kubeconfig).kinds()
    manifest = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    assert preflight._kinds(kinds, [manifest]) == [Finding("api", True, "all 1 kinds are served")]
    (finding,) = preflight._kinds([kind for kind in kinds if kind.group != "policy"], [manifest])
    assert (finding.ok, finding.detail.split(" is not served")[0]) == (
        False,
        "policy/v1 PodDisruptionBudget",
    )


def test_a_webhook_that_the_api_server_cannot_reach_is_never_applied(
    foreign: Foreign, admin: remote.RemoteCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "REACH", 3.0)
    foreign.reachable = False
    try:
        with pytest.raises(FairleadError, match=r"no route to the nodes.*port 8443 of OPA's pods"):
            deploy.deploy(admin, PolicySet.load(Settings()), sidecar="sync", progress=Progress())
        assert foreign.objects().list(*_WEBHOOK, None) == []
    finally:
        foreign.reachable = True
    deploy.deploy(admin, PolicySet.load(Settings()), sidecar="sync", progress=Progress())
    assert [
        configuration["metadata"]["name"]
        for configuration in foreign.objects().list(*_WEBHOOK, None)
    ] == ["fairlead"]

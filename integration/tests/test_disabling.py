"""`fairlead disable` lets pods in without OPA, until `fairlead enable` or the end of its time."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import command_line
import pytest
import suspension
import yaml
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE, WEBHOOKS
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import deploy, disable, drift
from fairlead.operations.drift import AS_DEPLOYED, DISABLED
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it lets pods in without their placement, and stops OPA")

ADMISSION = "admissionregistration.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io/v1"
MUTATING = (ADMISSION, "MutatingWebhookConfiguration", "fairlead")
VALIDATING = (ADMISSION, "ValidatingWebhookConfiguration", "fairlead")
WHY = "OPA hangs, #4711"

Made = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def enabled(cluster: EmbeddedCluster) -> Iterator[None]:
    """Everything is enabled again after the test, and as deployed."""
    yield
    disable.enable(cluster, None)

    def states() -> set[str]:
        return {entry.state for entry in drift.compare(cluster, cluster.objects()).objects}

    if states() != {AS_DEPLOYED}:
        deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())
    assert states() == {AS_DEPLOYED}


@pytest.fixture
def pool_of(
    objects: clients.Objects, namespace: Callable[..., str], pod: Made
) -> Callable[[], str | None]:
    """Creates a pod (a dry run) in a mapped namespace. Returns its pool, None without one, or
    "refused".
    """
    mapped = namespace(agentpool="pool1")

    def created() -> str | None:
        try:
            made = objects.apply(pod(mapped), dry_run=True)
        except Refused:
            return "refused"
        return (made["spec"].get("nodeSelector") or {}).get("agentpool")

    return created


def until_pool(pool_of: Callable[[], str | None], pool: str | None) -> None:
    """Wait until a new pod gets this pool."""
    until(lambda: pool_of() == pool, what=f"a new pod has {pool}")


def fairlead(cluster: EmbeddedCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command_line.fairlead(*arguments, "--name", cluster.name)


def status(cluster: EmbeddedCluster) -> tuple[int, dict[str, Any]]:
    done = fairlead(cluster, "status", "-o", "json")
    return done.returncode, json.loads(done.stdout)


def listed(cluster: EmbeddedCluster) -> list[dict[str, Any]]:
    done = fairlead(cluster, "history", "-o", "json")
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def events(objects: clients.Objects, reason: str) -> list[str]:
    return [
        entry["message"]
        for entry in objects.list("v1", "Event", NAMESPACE)
        if entry["reason"] == reason
    ]


def test_while_opa_hangs_pods_are_let_in_by_one_command(
    cluster: EmbeddedCluster, objects: clients.Objects, pool_of: Callable[[], str | None]
) -> None:
    assert pool_of() == "pool1"
    opa, *_ = cluster.opas()
    with suspension.unprobed(f"{opa.url}/health"), suspension.suspended(opa.pid):
        assert pool_of() == "refused"
        done = fairlead(cluster, "disable", "--reason", WHY, "-o", "json")
        assert done.returncode == 0, done.stderr
        until_pool(pool_of, None)
    (record,) = json.loads(done.stdout)["disabled"]
    assert (record["intent"], record["reason"]) == ("node-pool", WHY)
    assert record["by"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["since"])
    until(lambda: len(status(cluster)[1]["problems"]) == 1, what="OPA answers again")
    code, report = status(cluster)
    assert (code, report["disabled"]) == (1, [record])
    sentence = f"node-pool was disabled at {record['since']} by {record['by']} ({WHY})"
    assert report["problems"][0].startswith(sentence)
    assert {e["name"] for e in report["objects"] if e["state"] == DISABLED} == {"fairlead"}
    assert any(message.startswith(sentence) for message in events(objects, "IntentDisabled"))
    again = fairlead(cluster, "disable", "--reason", WHY)
    assert "nothing changed: disabled already" in again.stderr
    again = fairlead(cluster, "disable", "-m", "another", "--for", "1h", "-o", "json")
    assert f"({WHY}): its reason and its end are now those of this command" in again.stderr
    (updated,) = json.loads(again.stdout)["disabled"]
    assert {**updated, "reason": WHY, "until": None} == record, "but for these, it is the same"
    assert (updated["reason"], status(cluster)[1]["disabled"]) == ("another", [updated])
    done = fairlead(cluster, "enable", "-o", "json")
    assert json.loads(done.stdout) == {"disabled": [], "changed": ["node-pool"], "warnings": []}
    until_pool(pool_of, "pool1")
    assert status(cluster)[0] == 0
    assert any("another" in message for message in events(objects, "IntentEnabled"))
    switches = [row for row in listed(cluster) if row["intents"]][:3]
    assert [(row["action"], row["intents"]) for row in switches] == [
        ("enable", ["node-pool"]),
        ("disable", ["node-pool"]),
        ("disable", ["node-pool"]),
    ]
    assert [row["by"] for row in switches] == [record["by"]] * 3
    assert [row["until"] for row in switches] == [None, updated["until"], None]
    assert "another" in switches[0]["message"]
    assert (switches[1]["message"].startswith("another"), switches[2]["message"]) == (True, WHY)
    assert "nothing was disabled" in fairlead(cluster, "enable").stderr


def test_it_ends_by_itself_though_opa_hangs(
    cluster: EmbeddedCluster, objects: clients.Objects, pool_of: Callable[[], str | None]
) -> None:
    opa, *_ = cluster.opas()
    with suspension.unprobed(f"{opa.url}/health"), suspension.suspended(opa.pid):
        done = fairlead(cluster, "disable", "-m", WHY, "--for", "15s", "-o", "json")
        assert done.returncode == 0, done.stderr
        until_pool(pool_of, None)
        until(lambda: disable.read(objects).sentences == [], what="it is enabled again")
        until_pool(pool_of, "refused")
    until_pool(pool_of, "pool1")
    (record,) = json.loads(done.stdout)["disabled"]
    enabled, disabled = listed(cluster)[:2]
    assert (disabled["action"], disabled["until"]) == ("disable", record["until"])
    assert (enabled["action"], enabled["intents"]) == ("enable", ["node-pool"])
    assert enabled["by"] == "fairlead (the time was over)"
    assert enabled["time"] >= record["until"]
    assert any("the time was over" in message for message in events(objects, "IntentEnabled"))


def test_status_is_red_for_people(cluster: EmbeddedCluster, monkeypatch: Any) -> None:
    disable.disable(cluster, None, WHY)
    monkeypatch.setenv("FORCE_COLOR", "1")
    lines = fairlead(cluster, "status").stdout.splitlines()
    (line,) = [line for line in lines if WHY in line and line.startswith("\x1b[1;31mnode-pool")]
    assert line


@pytest.mark.parametrize("variables", [4_000, 10_000])
def test_pods_too_large_for_opa_are_let_in_too(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    namespace: Callable[..., str],
    pod: Made,
    variables: int,
) -> None:
    large = pod(namespace(agentpool="pool1"))
    env = [{"name": f"v{number}", "value": "x"} for number in range(variables)]
    large["spec"]["containers"] = [{**large["spec"]["containers"][0], "env": env}]

    def outcome() -> str:
        try:
            objects.apply(large, dry_run=True)
        except Refused as error:
            return error.message
        return "created"

    assert "it has more than 10000 entries" in outcome()
    disable.disable(cluster, None, "a test")
    until(lambda: outcome() == "created", what="it is created")
    disable.enable(cluster, None)
    until(lambda: outcome() != "created", what="it is refused")


def test_deployment_push_and_renewal_leave_it_disabled_and_say_so(
    cluster: EmbeddedCluster, pool_of: Callable[[], str | None]
) -> None:
    disable.disable(cluster, None, WHY)
    until_pool(pool_of, None)
    for arguments in (("deploy",), ("push",), ("rotate", "cert"), ("deploy",)):
        done = fairlead(cluster, *arguments)
        assert done.returncode == 0, done.stderr
        assert "warning: node-pool was disabled at" in done.stderr, arguments
        assert WHY in done.stderr
        assert pool_of() is None, arguments
    code, report = status(cluster)
    assert (code, len(report["problems"])) == (1, 1)


def test_a_webhook_that_a_deployment_adds_is_disabled_with_its_intent(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    disable.disable(cluster, None, WHY)
    settings = Settings.model_validate({"pools": {"pool1": {}, "pool2": {}}})
    deploy.deploy(cluster, PolicySet.load(settings), progress=Progress())
    live = objects.get(*MUTATING) or {}
    names = {webhook["name"]: webhook["objectSelector"] for webhook in live["webhooks"]}
    assert "namespaces.node-pool.fairlead.dev" in names
    assert all(selector["matchExpressions"] for selector in names.values())
    disable.enable(cluster, None)
    live = objects.get(*MUTATING) or {}
    assert {str(webhook.get("objectSelector")) for webhook in live["webhooks"]} == {"{}"}
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())


def test_a_deployment_restores_what_else_changed_and_what_was_half_enabled(
    cluster: EmbeddedCluster, objects: clients.Objects, pool_of: Callable[[], str | None]
) -> None:
    disable.disable(cluster, None, WHY)
    live = objects.get(*MUTATING)
    assert live
    live["webhooks"][0]["failurePolicy"] = "Ignore"
    live["webhooks"][0]["objectSelector"] = {}
    objects.merge(live, {"webhooks": live["webhooks"]})
    (entry,) = [e for e in drift.compare(cluster, objects).objects if e.state == drift.DIFFERS]
    first = f"webhooks[{live['webhooks'][0]['name']}]"
    assert set(entry.fields) == {f"{first}.failurePolicy", f"{first}.objectSelector"}
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())
    states = {e.state for e in drift.compare(cluster, objects).objects}
    assert states == {AS_DEPLOYED, DISABLED}
    until_pool(pool_of, None)


def test_a_deployment_does_not_disable_again_what_is_enabled_meanwhile(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = cluster.objects()
    disable.disable(cluster, None, WHY)
    (expected,) = [
        entry.manifest
        for entry in drift.compare(cluster, objects, drift.WEBHOOKS).objects
        if entry.kind == MUTATING[1]
    ]
    apply = objects.apply
    applied: list[Mapping[str, Any]] = []

    def enabling(manifest: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        if not applied:
            disable.enable(cluster, None)
        applied.append(manifest)
        return apply(manifest, **more)

    monkeypatch.setattr(objects, "apply", enabling)
    drift.apply_exactly(objects, expected)
    assert len(applied) == 2, "the first was refused, as it named an older version"
    assert disable.read(objects).sentences == []


@pytest.mark.parametrize("server_side", [True, False], ids=["server-side", "client-side"])
def test_a_tool_that_applies_the_manifests_leaves_it_disabled(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    pool_of: Callable[[], str | None],
    tmp_path: Path,
    server_side: bool,
) -> None:
    compared = drift.compare(cluster, objects).objects
    manifests = [
        copy.deepcopy(dict(entry.manifest))
        for entry in compared
        if entry.kind in drift.WEBHOOKS and entry.name == WEBHOOKS
    ]
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    how = (
        ["--server-side", "--force-conflicts", "--field-manager=kustomize-controller"]
        if server_side
        else []
    )
    kubectl(cluster, "apply", *how, "-f", str(file))
    disable.disable(cluster, None, WHY)
    for manifest in manifests:  # the tool has something to change
        manifest["metadata"]["labels"]["of-the-tool"] = "yes"
    file.write_text(yaml.safe_dump_all(manifests))
    assert "fairlead" in kubectl(cluster, "apply", *how, "-f", str(file))
    until_pool(pool_of, None)
    assert list(disable.read(objects).records) == ["node-pool"]
    assert {e.state for e in drift.compare(cluster, objects).objects} == {AS_DEPLOYED, DISABLED}


def test_one_intent_of_several_is_disabled_alone(
    cluster: EmbeddedCluster, objects: clients.Objects, pool_of: Callable[[], str | None]
) -> None:
    for key in (MUTATING, VALIDATING):
        live = objects.get(*key)
        assert live
        more = {**live["webhooks"][0], "name": "part.other.fairlead.dev", "failurePolicy": "Ignore"}
        objects.merge(live, {"webhooks": [*live["webhooks"], more]})
    result = disable.disable(cluster, "other", "a test")
    assert (result["changed"], [r["intent"] for r in result["disabled"]]) == (["other"], ["other"])
    assert pool_of() == "pool1"
    assert disable.disable(cluster, "node-pool", "a test")["changed"] == ["node-pool"]
    until_pool(pool_of, None)
    assert disable.enable(cluster, "node-pool")["changed"] == ["node-pool"]
    until_pool(pool_of, "pool1")
    assert list(disable.read(objects).records) == ["other"]
    with pytest.raises(UsageError, match="'no-such': there are node-pool, other"):
        disable.disable(cluster, "no-such", "a test")


def test_somebody_without_the_rights_changes_nothing(
    cluster: EmbeddedCluster, objects: clients.Objects, tmp_path: Path
) -> None:
    """The account may change one of the webhooks by RBAC; then the guards stop it."""
    name = {"metadata": {"name": "operator"}}
    rules = [
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["get"]},
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "verbs": ["patch"],
        },
    ]
    account = {"kind": "ServiceAccount", "name": "operator", "namespace": "default"}
    metadata = {"name": "operator", "namespace": "default"}
    objects.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "operator"}
    binding = {"subjects": [account], "roleRef": role}
    objects.apply({"apiVersion": RBAC, "kind": "ClusterRole", **name, "rules": rules})
    objects.apply({"apiVersion": RBAC, "kind": "ClusterRoleBinding", **name, **binding})
    kubeconfig = tmp_path / "kubeconfig"
    cluster.service_account_kubeconfig("default", "operator", kubeconfig)
    chosen = ["--cluster", "context", "--kubeconfig", str(kubeconfig)]
    before = [objects.get(*key) for key in (MUTATING, VALIDATING)]

    def refused() -> str:
        done = command_line.fairlead("disable", "-m", "a test", *chosen)
        assert done.returncode == 1, done
        assert "Nothing was changed" in done.stderr
        return done.stderr

    try:
        until(lambda: "operator may not change" in refused(), what="a guard refuses")
        assert "verb administer on policies.fairlead.dev" in refused()
        administers = {
            "apiGroups": ["fairlead.dev"],
            "resources": ["policies"],
            "verbs": ["administer"],
        }
        more = [*rules, administers]
        objects.apply({"apiVersion": RBAC, "kind": "ClusterRole", **name, "rules": more})
        until(lambda: "cannot patch resource" in refused(), what="RBAC refuses")
        assert [objects.get(*key) for key in (MUTATING, VALIDATING)] == before
    finally:
        objects.delete(RBAC, "ClusterRoleBinding", "operator")
        objects.delete(RBAC, "ClusterRole", "operator")


def kubectl(cluster: EmbeddedCluster, *arguments: str) -> str:
    program = toolchain.ensure(["kubectl"])["kubectl"]
    argv = [str(program), "--kubeconfig", str(cluster.kubeconfig), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_hand(cluster: EmbeddedCluster, what: str) -> None:
    """Run the lines of docs/operations.md with a shell, and with no other program than kubectl
    beside the usual ones.
    """
    page = (paths.root() / "docs" / "operations.md").read_text()
    (lines,) = re.findall(rf"<!-- {what} by hand -->\n```sh\n(.*?)```", page, re.DOTALL)
    program = Path(toolchain.ensure(["kubectl"])["kubectl"])
    environment = {
        "PATH": f"{program.parent}:/usr/bin:/bin",
        "KUBECONFIG": str(cluster.kubeconfig),
        "HOME": os.environ.get("HOME", "/"),
        "USER": "alice",
    }
    done = subprocess.run(
        ["/bin/sh", "-eu"],
        input=lines,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_the_lines_of_the_docs_do_the_same_without_the_command(
    cluster: EmbeddedCluster, objects: clients.Objects, pool_of: Callable[[], str | None]
) -> None:
    opa, *_ = cluster.opas()
    with suspension.unprobed(f"{opa.url}/health"), suspension.suspended(opa.pid):
        by_hand(cluster, "disable")
        until_pool(pool_of, None)
    (record,) = disable.read(objects).records.values()
    assert (record.intent, record.by, record.since) == ("node-pool", None, None)
    assert str(record.reason).startswith("by alice, ")
    compared = drift.compare(cluster, objects).objects
    assert {entry.name for entry in compared if entry.state == DISABLED} == {"fairlead"}
    assert disable.read(objects).halves == []
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())
    assert pool_of() is None
    by_hand(cluster, "enable")
    until_pool(pool_of, "pool1")
    assert disable.read(objects).sentences == []
    assert {e.state for e in drift.compare(cluster, objects).objects} == {AS_DEPLOYED}
    by_hand(cluster, "disable")
    assert disable.enable(cluster, None)["changed"] == ["node-pool"]
    until_pool(pool_of, "pool1")


def test_what_is_half_disabled_is_told(cluster: EmbeddedCluster, objects: clients.Objects) -> None:
    disable.disable(cluster, None, WHY)
    annotation = {"metadata": {"annotations": {"disabled.fairlead.dev/node-pool": None}}}
    live = objects.get(*MUTATING)
    assert live
    webhooks = [{**webhook, "objectSelector": {}} for webhook in live["webhooks"]]
    objects.merge(live, {**annotation, "webhooks": webhooks})
    (half,) = disable.read(objects).halves
    assert half.startswith("node-pool is disabled, but not by MutatingWebhookConfiguration")
    assert half in status(cluster)[1]["problems"]
    disable.enable(cluster, None)
    assert disable.read(objects).halves == []


def test_without_webhooks_there_is_nothing_to_disable(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    for key in (MUTATING, VALIDATING):
        objects.delete(*key)
    done = fairlead(cluster, "disable", "-m", WHY)
    assert done.returncode == 1
    assert "there is nothing to disable" in done.stderr
    assert fairlead(cluster, "disable", "--reason", "two\nlines").returncode == 2

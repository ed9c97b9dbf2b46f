"""The rollout in a cluster whose pods are older than the policy: audit first, then warn, then
compare."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import command_line
import pytest
from kubernetes import client
from waits import until

from fairlead.admission import audit
from fairlead.admission.audit import (
    ALONE,
    CHANGED,
    NOT_ASKED,
    OUTSIDE,
    PLACED,
    REFUSED,
    UNMAPPED,
)
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.kube import api_requests, clients
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.kube.responses import Response
from fairlead.operations import decision_logs
from fairlead.operations.decision_logs import Selection
from fairlead.operations.deploy import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it has a cluster of its own, whose settings change")

QUIET = Progress()
NAMESPACE = "payments"
CONTAINERS = [{"name": "c", "image": "nginx:1"}]
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, verbs: [create], resources: [{group: "", resources: [pods]}]}
  - {level: None}
"""
READS = [
    {
        "apiGroups": [""],
        "resources": ["namespaces", "pods", "replicationcontrollers"],
        "verbs": ["list"],
    },
    {
        "apiGroups": ["apps"],
        "resources": ["deployments", "daemonsets", "statefulsets", "replicasets"],
        "verbs": ["list"],
    },
    {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": ["list"]},
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": [
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ],
        "verbs": ["list"],
    },
]
NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}


def fairlead(*arguments: str | Path, code: int) -> subprocess.CompletedProcess[str]:
    done = command_line.fairlead(*arguments)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the API server's audit log."""
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def bare(log: Path) -> Iterator[EmbeddedCluster]:
    """A cluster without Fairlead, with pods that are older than the label of their namespace."""
    rules = log.with_name("policy.yaml")
    rules.write_text(AUDIT_POLICY)
    with EmbeddedCluster(f"audit-{os.getpid()}") as cluster:
        flags = {"audit-policy-file": rules, "audit-log-path": log}
        cluster.start_control_plane(further={"kube-apiserver": flags}, progress=QUIET)
        cluster.add_nodes({"pool1": 1, "pool2": 1})
        _fill(cluster)
        yield cluster


@pytest.fixture(scope="module")
def audited(bare: EmbeddedCluster) -> dict[str, Any]:
    """The output of `fairlead audit` before anything was deployed."""
    answer = fairlead("audit", "--name", bare.name, "-o", "json", code=1)
    report: dict[str, Any] = json.loads(answer.stdout)
    return report


@pytest.fixture(scope="module")
def warned(bare: EmbeddedCluster, audited: dict[str, Any]) -> EmbeddedCluster:
    """The cluster, with Fairlead deployed so that it only warns."""
    refused = fairlead("diff", "--name", bare.name, code=2)
    assert "no deployed policies to compare with: run `fairlead audit`" in refused.stderr
    deploy(bare, PolicySet.load(Settings.model_validate({"enforcement": "warn"})), progress=QUIET)
    return bare


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": CONTAINERS, **spec},
    }


def _workload(api_version: str, kind: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _template(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": CONTAINERS, **spec}}


def _scaled(name: str, **spec: Any) -> dict[str, Any]:
    """The spec of a workload with zero replicas."""
    return {
        "replicas": 0,
        "selector": {"matchLabels": {"app": name}},
        "template": _template(name, **spec),
    }


def _fill(cluster: EmbeddedCluster) -> None:
    objects = cluster.objects()
    core = client.CoreV1Api(clients.connect(cluster.kubeconfig))
    for namespace in (NAMESPACE, "free"):
        objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for namespace in (NAMESPACE, "free", "kube-system"):
        account = {"metadata": {"name": "default", "namespace": namespace}}
        objects.apply({"apiVersion": "v1", "kind": "ServiceAccount", **account})

    def bind(name: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding: Any = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": target,
        }
        core.create_namespaced_binding(NAMESPACE, binding, _preload_content=False)

    for name, node in (("by-hand", "pool2-0"), ("at-home", "pool1-0")):
        objects.create(_pod(name, schedulerName="nobody"))
        bind(name, node)
    objects.create(_pod("named", nodeName="pool1-0"))
    objects.create(_pod("own", nodeSelector={"disk": "ssd"}))
    objects.create(_pod("good", nodeSelector={"agentpool": "pool1"}))
    objects.create(_pod("over", schedulerName="nobody", nodeSelector={"disk": "ssd"}))
    core.patch_namespaced_pod_status("over", NAMESPACE, {"status": {"phase": "Succeeded"}})
    uid = (objects.get("v1", "Node", "pool2-0") or {})["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "pool2-0", "uid": uid, "controller": True}
    static = _pod("static", nodeName="pool2-0")
    static["metadata"] |= {
        "ownerReferences": [owner],
        "annotations": {"kubernetes.io/config.mirror": "x"},
    }
    objects.create(static)
    for namespace in ("free", "kube-system"):
        system = _pod("named", nodeName="pool1-0")
        system["metadata"]["namespace"] = namespace
        objects.create(system)

    objects.create(_workload("apps/v1", "Deployment", "api", **_scaled("api")))
    objects.create(
        _workload("apps/v1", "Deployment", "pinned", **_scaled("pinned", nodeName="pool2-0"))
    )
    objects.create(_workload("apps/v1", "StatefulSet", "db", **_scaled("db"), serviceName="db"))
    objects.create(_workload("apps/v1", "ReplicaSet", "old", **_scaled("old")))
    rc = {"replicas": 0, "selector": {"app": "older"}, "template": _template("older")}
    objects.create(_workload("v1", "ReplicationController", "older", **rc))
    once = _template("once", restartPolicy="Never")
    objects.create(_workload("batch/v1", "Job", "once", suspend=True, template=once))
    job = {"spec": {"template": once}}
    objects.create(
        _workload(
            "batch/v1", "CronJob", "nightly", suspend=True, schedule="0 3 * * *", jobTemplate=job
        )
    )
    agent = {"selector": {"matchLabels": {"app": "agent"}}, "template": _template("agent")}
    objects.create(_workload("apps/v1", "DaemonSet", "agent", **agent))

    def made() -> bool:
        daemons = [
            pod["spec"].get("nodeName") for pod in objects.list("v1", "Pod", NAMESPACE, "app=agent")
        ]
        runs = (objects.get("v1", "Pod", "good", NAMESPACE) or {})["spec"].get("nodeName")
        replicas = objects.list("apps/v1", "ReplicaSet", NAMESPACE)
        return bool(
            sorted(daemons, key=str) == ["pool1-0", "pool2-0"] and runs and len(replicas) == 3
        )

    until(made, what="the controllers made their pods")
    labelled = {"name": NAMESPACE, "labels": {"agentpool": "pool1"}}
    objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": labelled})


def test_an_audit_judges_all_that_predates_the_policy(audited: dict[str, Any]) -> None:
    findings = {f"{f['kind']} {f['name']}": f["finding"] for f in audited["findings"]}
    assert findings == {
        "Pod by-hand": OUTSIDE,
        "Deployment pinned": REFUSED,
        "Pod named": REFUSED,
        "Pod own": REFUSED,
        "CronJob nightly": CHANGED,
        "DaemonSet agent": CHANGED,
        "Deployment api": CHANGED,
        "Job once": CHANGED,
        "Pod at-home": CHANGED,
        "ReplicaSet old": CHANGED,
        "ReplicationController older": CHANGED,
        "StatefulSet db": CHANGED,
        "Pod good": PLACED,
    }
    # the worst first
    assert list(findings) == [f"{f['kind']} {f['name']}" for f in audited["findings"]]
    assert audited["counts"] == {
        OUTSIDE: 1,
        REFUSED: 3,
        CHANGED: 8,
        NOT_ASKED: 0,
        PLACED: 1,
        UNMAPPED: 1,
        ALONE: 3,
    }
    assert audited["webhooks"] == "rendered"
    by_hand = audited["findings"][0]
    assert (by_hand["pool"], by_hand["node"]) == ("pool1", "pool2-0")
    assert by_hand["message"] == "runs on pool2-0, which is not labelled agentpool=pool1"


def test_every_pod_outside_its_pool_can_be_asked_for_whoever_put_it_there(
    bare: EmbeddedCluster,
) -> None:
    query = ("query", "pods-outside-pool", "--live", "--name", bare.name, "-o", "json")
    rows = json.loads(fairlead(*query, code=0).stdout)
    assert {(row["namespace"], row["pool"], row["node"]) for row in rows} == {
        (NAMESPACE, "pool1", "pool2-0")
    }
    agent, *others = [row["name"] for row in rows]
    assert agent.startswith("agent-")
    assert others == ["by-hand", "static"]


def test_people_see_violations_first_and_counts_at_the_end(
    bare: EmbeddedCluster, audited: dict[str, Any]
) -> None:
    lines = fairlead("audit", "--name", bare.name, code=1).stdout.splitlines()
    assert lines[0].split() == ["FINDING", "NAMESPACE", "POOL", "OBJECTS", "MESSAGE"]
    assert lines[1].startswith("outside its pool  payments   pool1  Pod by-hand")
    total = sum(audited["counts"].values())
    assert lines[-1].startswith(
        f"{total} objects: 1 outside its pool, 3 would be refused, 8 would change"
    )


def test_an_audit_reads_page_by_page(
    bare: EmbeddedCluster, audited: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_requests, "PAGE", 2)
    assert audit.audit(bare, PolicySet.load(Settings()), progress=QUIET) == audited


def test_an_audit_takes_no_more_than_the_right_to_list(
    bare: EmbeddedCluster, audited: dict[str, Any], tmp_path: Path
) -> None:
    objects = bare.objects()
    rbac, name = "rbac.authorization.k8s.io/v1", {"metadata": {"name": "auditor"}}
    subject = {"kind": "ServiceAccount", "name": "auditor", "namespace": "free"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "auditor"}
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "auditor", "namespace": "free"},
        }
    )
    objects.apply({"apiVersion": rbac, "kind": "ClusterRole", **name, "rules": READS})
    objects.apply(
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            **name,
            "subjects": [subject],
            "roleRef": role,
        }
    )
    kubeconfig = tmp_path / "kubeconfig"
    bare.service_account_kubeconfig("free", "auditor", kubeconfig)
    chosen = ("--cluster", "context", "--kubeconfig", kubeconfig, "-o", "json")
    try:
        refusal = "GET /api/v1/nodes: the API server says 403: "
        assert refusal in fairlead("audit", *chosen, code=1).stderr
        objects.apply({"apiVersion": rbac, "kind": "ClusterRole", **name, "rules": [*READS, NODES]})
        output = until(
            lambda: fairlead("audit", *chosen, code=1).stdout, what="the new right is known"
        )
        assert json.loads(output) == audited
    finally:
        objects.delete(rbac, "ClusterRoleBinding", "auditor")
        objects.delete(rbac, "ClusterRole", "auditor")
        for state in paths.state("x").parent.glob(f"context-*{bare.name}*"):
            (state / "kubeconfig").unlink()
            state.rmdir()


@pytest.fixture
def create(warned: EmbeddedCluster) -> Callable[..., Response]:
    """Creates a pod with this spec, and returns the API server's answer."""
    rest = Objects(warned.kubeconfig)
    manifest = _pod("probe")
    # Its webhook is in force soon after it is applied.
    until(
        lambda: (
            rest.request(
                "POST",
                path_of(manifest, NAMESPACE),
                _pod("probe", nodeName="x"),
                query={"dryRun": "All"},
            ).warnings
        ),
        what="the webhook is asked",
    )

    def post(name: str, **spec: Any) -> Response:
        return rest.request("POST", path_of(manifest, NAMESPACE), _pod(name, **spec))

    return post


def audited_annotations(log: Path, name: str) -> dict[str, str]:
    """The audit annotations of the creation of the pod `name`."""

    def look() -> dict[str, str] | None:
        for line in log.read_text().splitlines():
            event = json.loads(line)
            if event["objectRef"].get("name") == name and event["requestURI"].partition("?")[
                0
            ].endswith("/pods"):
                return {key: str(value) for key, value in event["annotations"].items()}
        return None

    annotations: dict[str, str] = until(look, what=f"the audit log tells of pod {name}")
    return annotations


def test_enforcement_warn_admits_and_tells_the_user_and_the_audit_log(
    create: Callable[..., Response], log: Path
) -> None:
    answer = create("warned", nodeSelector={"disk": "ssd"})
    assert (answer.status, answer.body["spec"]["nodeSelector"]) == (201, {"disk": "ssd"})
    assert any(
        'pod "warned" sets spec.nodeSelector disk=ssd' in warning for warning in answer.warnings
    )
    annotation = audited_annotations(log, "warned")["node-pool.fairlead.dev/node-pool"]
    assert annotation.startswith('would be refused: pod "warned" sets spec.nodeSelector disk=ssd')


def test_the_audit_log_leads_to_the_decision(
    warned: EmbeddedCluster, create: Callable[..., Response], log: Path
) -> None:
    create("traced", nodeSelector={"disk": "ssd"})
    uid = audited_annotations(log, "traced")["node-pool.fairlead.dev/decisionUID"]
    (entry,) = until(
        lambda: decision_logs.decisions(warned, Selection(uid=uid)),
        what=f"decision {uid} is logged",
    )
    assert entry["input"]["request"]["object"]["metadata"]["name"] == "traced"


def test_the_audit_log_tells_where_a_pod_was_placed(
    create: Callable[..., Response], log: Path
) -> None:
    answer = create("placed")
    assert (answer.status, answer.warnings) == (201, ())
    assert audited_annotations(log, "placed")["node-pool.fairlead.dev/node-pool"] == "placed: pool1"


def diffed(
    cluster: EmbeddedCluster, folder: Path, settings: str, *arguments: str | Path, code: int
) -> dict[str, Any]:
    (folder / "fairlead.yaml").write_text(settings)
    chosen = ("--name", cluster.name, "--settings", folder / "fairlead.yaml", "-o", "json")
    report: dict[str, Any] = json.loads(fairlead("diff", *chosen, *arguments, code=code).stdout)
    return report


def test_a_diff_with_what_is_deployed_is_empty(warned: EmbeddedCluster, tmp_path: Path) -> None:
    report = diffed(warned, tmp_path, "enforcement: {node-pool: warn}\n", code=0)
    assert report["differences"] == []
    assert report["counts"]["different"] == 0
    assert report["counts"]["same"] > 13
    assert report["revisions"]["deployed"] == report["revisions"]["new"]


def test_a_diff_tells_what_would_be_refused_from_now_on(
    warned: EmbeddedCluster, tmp_path: Path
) -> None:
    report = diffed(warned, tmp_path, "enforcement: deny\n", code=1)
    refused = {d["name"]: d for d in report["differences"] if d["difference"] == "would be refused"}
    assert {"named", "own", "pinned"} <= refused.keys()
    assert refused["own"]["deployed"]["allowed"] is True
    assert refused["own"]["deployed"]["warnings"] == [refused["own"]["new"]["message"]]
    assert report["revisions"]["deployed"] != report["revisions"]["new"]


def test_a_diff_tells_what_would_be_placed_otherwise(
    warned: EmbeddedCluster, tmp_path: Path
) -> None:
    settings = "enforcement: warn\nnodeLabel: gke\n"
    report = diffed(warned, tmp_path, settings, code=1)
    changed = {
        d["name"]: d for d in report["differences"] if d["difference"] == "would get another patch"
    }
    assert changed["at-home"]["deployed"]["patch"][0]["value"] == {"agentpool": "pool1"}
    assert changed["at-home"]["new"]["patch"][0]["value"] == {
        "cloud.google.com/gke-nodepool": "pool1"
    }
    chosen = ("--name", warned.name, "--settings", tmp_path / "fairlead.yaml")
    lines = fairlead("diff", *chosen, code=1).stdout.splitlines()
    assert lines[0].split() == ["DIFFERENCE", "NAMESPACE", "OBJECTS", "MESSAGE"]
    revisions = f"{report['revisions']['deployed']} -> {report['revisions']['new']}"
    assert lines[-1].startswith(f"{revisions}: {sum(report['counts'].values())} objects: ")


def test_a_diff_is_of_the_policies_of_the_folder(warned: EmbeddedCluster, tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    shutil.copytree(paths.root() / "policies", folder)
    answer = (
        '{"response": {"uid": input.request.uid, "allowed": false, "status": {"message": "never"}}}'
    )
    (folder / "main.rego").write_text(f"package system\n\nmain := {answer}\n")
    report = diffed(warned, tmp_path, "enforcement: warn\n", "--policies", folder, code=1)
    assert {d["difference"] for d in report["differences"]} == {"would be refused"}
    assert {d["namespace"] for d in report["differences"]} == {NAMESPACE}
    assert report["counts"]["same"] == 4  # OPA is not asked about these


@pytest.mark.parametrize("command", ["audit", "diff"])
def test_policies_that_do_not_compile_are_told_with_their_line(
    warned: EmbeddedCluster, tmp_path: Path, command: str
) -> None:
    (tmp_path / "main.rego").write_text("package system\n\nmain := x\n")
    completed = fairlead(command, "--name", warned.name, "--policies", tmp_path, code=2)
    assert "main.rego:3: rego_unsafe_var_error" in completed.stderr
    assert completed.stdout == ""

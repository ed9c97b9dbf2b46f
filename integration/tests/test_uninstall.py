"""Uninstalling removes what Fairlead created, the webhooks first, and leaves everything else."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any

import command_line
import pytest
from foreign import Foreign

from fairlead.clusters import remote
from fairlead.common.progress import Progress
from fairlead.deployment import ownership
from fairlead.deployment.names import NAMESPACE, PART_OF
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import deploy, uninstall
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

ADMISSION = "admissionregistration.k8s.io/v1"
PROFILES = ["foreign"]
pytestmark = pytest.mark.embedded("its nodes are simulated")

_COMES_AND_GOES = {"Event", "Lease", "ComponentStatus", "IPAddress", "Endpoints", "EndpointSlice"}
POLICY = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "mine",
        "namespace": NAMESPACE,
        "labels": {"openpolicyagent.org/policy": "rego"},
    },
    "data": {"mine.rego": "package mine\nx := 1\n"},
}


@pytest.fixture(scope="module")
def foreign(undeployed: Foreign) -> Foreign:
    return undeployed


def everything(foreign: Foreign) -> set[tuple[str, str, str]]:
    """Every object in the cluster, as (kind, namespace, name)."""
    objects, names = foreign.objects(), set()
    for kind in clients.Objects(foreign.kubeconfig).kinds():
        if "list" in kind.verbs and kind.name not in _COMES_AND_GOES:
            listed = objects.list(kind.api_version, kind.name, None)
            names |= {
                (kind.name, o["metadata"].get("namespace") or "", o["metadata"]["name"])
                for o in listed
            }
    return names


def fairlead(foreign: Foreign, *arguments: str) -> tuple[list[dict[str, Any]], str]:
    """The output of a command: its data, and its stderr."""
    chosen = ("--context", foreign.context, "--kubeconfig", str(foreign.kubeconfig), "-o", "json")
    done = command_line.fairlead(*arguments, *chosen)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_all_of_it_goes_and_nothing_else_and_again(foreign: Foreign) -> None:
    objects = foreign.objects()
    theirs = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}
    objects.create({**theirs, "metadata": {"name": "fairlead-auditors"}})
    before = everything(foreign)
    fairlead(foreign, "deploy", "--sidecar", "sync", "--yes")
    made = everything(foreign) - before
    fairlead(foreign, "disable", "-m", "a test")  # what is disabled goes, too
    assert ("ClusterRole", "", "fairlead-opa") in made
    rows, _ = fairlead(foreign, "uninstall")
    assert all(row.keys() == {"kind", "name", "namespace", "removed"} for row in rows)
    assert rows[0]["kind"] == "ValidatingWebhookConfiguration"
    assert rows[-1] == {"kind": "Namespace", "name": NAMESPACE, "namespace": None, "removed": True}
    history = [row["name"] for row in rows if row["name"].startswith("fairlead-policies-")]
    assert len(history) == 1
    assert everything(foreign) == before
    chosen = ("--context", foreign.context, "--kubeconfig", str(foreign.kubeconfig))
    completed = command_line.fairlead("status", *chosen)
    assert (completed.returncode, "not deployed" in completed.stderr) == (1, True)
    again, stderr = fairlead(foreign, "uninstall", "--yes")
    assert (again, "there is nothing to remove" in stderr) == ([], True)
    assert everything(foreign) == before
    objects.delete("rbac.authorization.k8s.io/v1", "ClusterRole", "fairlead-auditors")


def test_a_namespace_with_something_else_in_it_stays_and_tells_what(foreign: Foreign) -> None:
    fairlead(foreign, "deploy", "--sidecar", "sync", "--yes")
    objects = foreign.objects()
    objects.create(POLICY)
    rows, stderr = fairlead(foreign, "uninstall")
    assert rows[-1] == {"kind": "Namespace", "name": NAMESPACE, "namespace": None, "removed": False}
    assert "the namespace stays, because it also holds: ConfigMap mine" in stderr
    assert objects.get("v1", "ConfigMap", "mine", NAMESPACE) is not None
    assert objects.get("apps/v1", "Deployment", "opa", NAMESPACE) is None
    objects.delete("v1", "ConfigMap", "mine", NAMESPACE)
    rows, _ = fairlead(foreign, "uninstall")
    assert rows == [{"kind": "Namespace", "name": NAMESPACE, "namespace": None, "removed": True}]


def unmarked(foreign: Foreign, made: set[tuple[str, str, str]], labels: dict[str, None]) -> None:
    """Clear who applied the objects, as Kubernetes lets everybody who may write them."""
    objects = foreign.objects()
    versions = {kind.name: kind.api_version for kind in objects.kinds()}
    for kind, namespace, name in made:
        metadata = {"name": name, "namespace": namespace or None}
        manifest = {"apiVersion": versions[kind], "kind": kind, "metadata": metadata}
        with contextlib.suppress(Refused):  # pods come and go
            objects.merge(manifest, {"metadata": {"managedFields": [{}], "labels": labels}})


@pytest.mark.parametrize("labels", [{}, {PART_OF: None}], ids=["managers", "managers and labels"])
def test_what_lost_its_marks_goes_too_or_is_taken_up_again(
    foreign: Foreign, labels: dict[str, None]
) -> None:
    objects = foreign.objects()
    stranger = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    stranger["metadata"] = {"name": "look", "namespace": "default", "labels": {PART_OF: "fairlead"}}
    objects.create(stranger)
    before = everything(foreign)
    fairlead(foreign, "deploy", "--sidecar", "sync", "--yes")
    made = everything(foreign) - before
    lasting = {each for each in made if each[0] not in ("Pod", "ReplicaSet", "Lease", "Namespace")}
    unmarked(foreign, lasting, labels)
    _, stderr = fairlead(foreign, "deploy", "--yes")
    webhooks = objects.get(ADMISSION, "ValidatingWebhookConfiguration", "fairlead")
    assert webhooks is not None
    assert ownership.is_applied_by(clients.FIELD_MANAGER, webhooks)
    assert ownership.is_labelled(webhooks)
    assert "was there before" not in stderr
    unmarked(foreign, lasting, labels)
    fairlead(foreign, "uninstall")
    assert everything(foreign) == before
    objects.delete("v1", "ConfigMap", "look", "default")


def test_an_object_of_the_same_name_is_taken_up_with_a_word(foreign: Foreign) -> None:
    objects = foreign.objects()
    theirs = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}
    objects.create({**theirs, "metadata": {"name": "fairlead-opa"}})
    _, stderr = fairlead(foreign, "deploy", "--sidecar", "sync", "--yes")
    assert "ClusterRole fairlead-opa was there before, and Fairlead had not made it" in stderr
    _, stderr = fairlead(foreign, "deploy", "--yes")
    assert "was there before" not in stderr
    fairlead(foreign, "uninstall")


def test_pods_are_created_all_the_while(foreign: Foreign) -> None:
    """The webhook fails closed: if it existed a moment longer than OPA, pods would be refused."""
    cluster = remote.RemoteCluster(foreign.context, foreign.kubeconfig)
    deploy.deploy(cluster, PolicySet.load(Settings()), sidecar="sync", progress=Progress())
    objects = foreign.objects()
    labels = {"agentpool": "pool1"}
    objects.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "busy", "labels": labels}}
    )
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "busy"},
        }
    )
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "busy"}}
    pod["spec"] = {"containers": [{"name": "main", "image": "nginx:1.29"}]}
    stop, selectors, refused = threading.Event(), [], []

    def create() -> None:
        while not stop.is_set():
            try:
                selectors.append(objects.apply(pod, dry_run=True)["spec"].get("nodeSelector"))
            except Refused as error:
                refused.append(str(error))

    thread = threading.Thread(target=create)
    thread.start()
    try:
        uninstall.uninstall(cluster, progress=Progress())
    finally:
        stop.set()
        thread.join()
    assert refused == []
    assert selectors[0] == labels
    assert selectors[-1] is None

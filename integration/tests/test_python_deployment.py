"""Policies in Python, deployed: they are pushed, rolled back, compared and exchanged for other
engines, and no pod is created unplaced meanwhile."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import engine_clusters
import pytest
import yaml
from dry_runs import pod, selector, writer
from engine_clusters import Run
from policy_copies import copied
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths, waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import ENGINE_ANNOTATION, NAMESPACE, POLICIES, PYTHON_ENGINE
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import deploy, push, rollback
from fairlead.operations import status as statuses
from fairlead.policy import python_code
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["python"]
pytestmark = pytest.mark.embedded("it has no OPA")

ADMISSION = "admissionregistration.k8s.io/v1"
QUIET = Progress()
OF_OPA = {"opa", "sync"}
REGO = """\
# METADATA
# title: Replicas
package replicas

import data.review
import data.settings

decision := {"deny": deny, "patch": [], "warn": set()}

deny contains message if {
	message := sprintf(
		"Deployment %q: %d replicas are too few: set more",
		[review.name, _replicas],
	)
	_replicas < settings.parameters.replicas.least
}

_replicas := object.get(input.request.object.spec, "replicas", 1)
"""
FACTS = """\
writtenFor: [python]
requests:
  - kinds: [apps/v1/Deployment]
    operations: [CREATE]
parameters:
  properties:
    least: {type: integer, default: 2}
"""
REGO_TEST = """\
package replicas_test

import data.replicas

test_one_is_too_few if {
	review := {"request": {"name": "web", "object": {"spec": {"replicas": 1}}}}
	count(replicas.deny) == 1 with input as review
}
"""
MESSAGE = 'Deployment "web": 1 replicas are too few: set more'


@pytest.fixture(scope="module")
def python(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    yield cluster
    deploy.deploy(cluster, PolicySet.load(Settings()), engine="python", progress=QUIET)


@pytest.fixture
def objects(python: EmbeddedCluster) -> clients.Objects:
    return python.objects()


@pytest.fixture
def restored(python: EmbeddedCluster) -> Iterator[None]:
    """The default settings are deployed again after the test."""
    yield
    deploy.deploy(python, PolicySet.load(Settings()), engine="python", progress=QUIET)


@pytest.fixture
def fairlead(python: EmbeddedCluster, tmp_path: Path) -> Run:
    return engine_clusters.commands(python, tmp_path)


def status(fairlead: Run) -> Any:
    shown = fairlead("status", "-o", "json")
    document = json.loads(shown.stdout)
    assert shown.returncode == (1 if document["problems"] else 0)
    return document


def test_it_places_and_refuses_without_opa(
    python: EmbeddedCluster, objects: clients.Objects
) -> None:
    assert selector(objects, pod("mapped")) == {"agentpool": "pool1"}
    assert selector(objects, pod("free")) is None
    with pytest.raises(Refused, match=r"sets spec\.nodeSelector disk=ssd") as refused:
        selector(objects, pod("mapped", nodeSelector={"disk": "ssd"}))
    assert refused.value.status == 403
    assert not OF_OPA & python.servers().keys()
    assert "serve" in python.servers()


def test_status_knows_the_server_and_a_deployment_again_changes_nothing(
    python: EmbeddedCluster, objects: clients.Objects, fairlead: Run
) -> None:
    document = status(fairlead)
    (server,) = document["opa"]
    config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    assert config_map
    revision = config_map["metadata"]["annotations"]["fairlead.dev/revision"]
    assert (server["pod"], server["ready"], server["revision"]) == ("serve", True, revision)
    assert (document["engine"], document["sidecar"], document["problems"]) == ("python", None, [])
    assert [row["status"] for row in document["policies"]] == ["ok"]
    planned = fairlead("diff", "--objects", "-o", "json")
    assert {row["action"] for row in json.loads(planned.stdout)} == {"unchanged"}, planned.stdout
    again = fairlead("deploy", "-o", "json")
    assert {row["action"] for row in json.loads(again.stdout)} == {"unchanged"}, again.stdout
    assert python.servers()["serve"]["pid"] == server["pid"]


def test_the_server_may_only_read(python: EmbeddedCluster) -> None:
    """So its rights are of no use to whoever gets hold of it, but to read policies and labels."""
    objects = clients.Objects(python.path / "opa.kubeconfig")
    config_map = {"metadata": {"name": POLICIES, "namespace": NAMESPACE}}
    change = {"metadata": {"annotations": {"a": "b"}}}
    with pytest.raises(Refused, match="forbidden"):
        objects.merge({"apiVersion": "v1", "kind": "ConfigMap", **config_map}, change)
    with pytest.raises(Refused, match="forbidden"):
        objects.list("v1", "Secret", NAMESPACE)


@pytest.mark.usefixtures("restored")
def test_a_push_and_a_rollback_change_what_is_decided(
    python: EmbeddedCluster, objects: clients.Objects, fairlead: Run
) -> None:
    with writer(python.kubeconfig) as selectors:
        pushed = fairlead("push", "-m", "by hand", "-o", "json", settings="nodeLabel: gke\n")
        assert pushed.returncode == 0, pushed.stderr
        placed = {"cloud.google.com/gke-nodepool": "pool1"}
        assert selector(objects, pod("mapped")) == placed
        (server,) = json.loads(pushed.stdout)["opa"]
        assert server["revision"] == json.loads(pushed.stdout)["revision"]
        back = fairlead("rollback", "-o", "json")
    assert back.returncode == 0, back.stderr
    assert json.loads(back.stdout)["direction"] == "back"
    assert selector(objects, pod("mapped")) == {"agentpool": "pool1"}
    given = {json.dumps(each) for each in selectors}
    assert given <= {'{"agentpool": "pool1"}', '{"cloud.google.com/gke-nodepool": "pool1"}'}
    rows = json.loads(fairlead("history", "-o", "json").stdout)
    assert [row["action"] for row in rows[:2]] == ["rollback", "push"]
    assert status(fairlead)["problems"] == []


@pytest.mark.usefixtures("restored")
def test_code_is_pushed_and_comes_back_with_a_rollback(
    python: EmbeddedCluster, objects: clients.Objects, tmp_path: Path
) -> None:
    folder = copied(tmp_path / "policies")
    code = folder / "node_pool" / "engines" / "python.py"
    text = code.read_text()
    changed = text.replace("places its pods in pool", "keeps its pods in pool")
    assert changed != text
    code.write_text(changed)
    push.push(python, PolicySet.load(Settings(), folder), progress=QUIET)
    evading = pod("mapped", nodeSelector={"agentpool": "pool2"})
    with pytest.raises(Refused, match="keeps its pods in pool"):
        selector(objects, evading)
    rollback.rollback(python, None, progress=QUIET)
    with pytest.raises(Refused, match="places its pods in pool"):
        selector(objects, evading)


@pytest.mark.usefixtures("restored")
def test_a_users_own_policy_in_python_is_deployed_with_its_webhook(
    objects: clients.Objects, fairlead: Run, tmp_path: Path
) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("free")["spec"]}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "free"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    case = {
        "name": "one replica is too few",
        "intent": "replicas",
        "namespace": {"name": "free"},
        "request": {"operation": "CREATE", "object": manifest},
        "expect": {"allowed": False, "message": MESSAGE},
    }
    serving = (paths.root() / "docs" / "serve.md").read_text()
    example = re.search(r"```python\n(.*?)```", serving, re.DOTALL)
    assert example
    place = tmp_path / "own" / "replicas"
    for name, text in (
        ("replicas.rego", REGO),
        ("intent.yaml", FACTS),
        ("replicas_test.rego", REGO_TEST),
        ("cases/replicas.yaml", yaml.safe_dump([case])),
        ("engines/python.py", example[1]),
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    pushed = fairlead("push", settings="policies: [own]\n")
    assert pushed.returncode == 0, pushed.stderr

    def refused() -> bool:
        with suppress(Refused):
            objects.apply(manifest, dry_run=True)
            return False
        return True

    until(refused, what="the API server asks about Deployments")
    with pytest.raises(Refused, match=MESSAGE):
        objects.apply(manifest, dry_run=True)
    assert status(fairlead)["problems"] == []


def test_code_that_cannot_be_used_changes_nothing(
    python: EmbeddedCluster, objects: clients.Objects, fairlead: Run, tmp_path: Path
) -> None:
    before = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    shutil.copytree(paths.root() / "policies", tmp_path / "policies")
    code = tmp_path / "policies" / "node_pool" / "engines" / "python.py"
    code.write_text("def decide(:\n")
    broken = fairlead("push", "--policies", str(tmp_path / "policies"))
    assert (broken.returncode, "python.py:1: SyntaxError" in broken.stderr) == (2, True)
    code.unlink()
    facts = tmp_path / "policies" / "node_pool" / "intent.yaml"
    facts.write_text(facts.read_text().replace(", python]", "]", 1))
    for command in ("deploy", "push"):
        lacking = fairlead(command, "--policies", str(tmp_path / "policies"))
        assert lacking.returncode == 2
        assert "the intent node-pool is not written in Python: write" in lacking.stderr
    stale = fairlead("deploy", settings="maxStaleness: 60\n")
    assert (stale.returncode, "maxStaleness is about OPA" in stale.stderr) == (2, True)
    assert "--sidecar is about OPA" in fairlead("deploy", "--sidecar", "sync").stderr
    assert fairlead("rotate", "token").returncode == 2
    after = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    assert before
    assert after
    assert before["data"] == after["data"]


@pytest.mark.usefixtures("restored")
def test_a_revision_that_no_server_can_use_is_put_back(
    python: EmbeddedCluster, objects: clients.Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if this machine could import what the servers' image lacks."""
    read = python_code.read

    def lacking(active: Any) -> dict[str, str]:
        return {key: f"{text}\nimport nowhere\n" for key, text in read(active).items()}

    monkeypatch.setattr(python_code, "read", lacking)
    with pytest.raises(FairleadError, match=r"No module named 'nowhere'.*was put back"):
        push.push(python, PolicySet.load(Settings()), progress=QUIET)
    assert selector(objects, pod("mapped")) == {"agentpool": "pool1"}


def test_a_killed_server_is_started_again_and_nothing_is_unplaced_meanwhile(
    python: EmbeddedCluster, objects: clients.Objects, fairlead: Run
) -> None:
    with writer(python.kubeconfig) as selectors:
        pid = python.servers()["serve"]["pid"]
        assert pid
        os.kill(pid, signal.SIGKILL)

        def again() -> bool:
            fresh = python.servers()["serve"]["pid"]
            return fresh not in (None, pid) and all(
                row["ready"] for row in statuses.status(python)["opa"]
            )

        waiting.until(again, deadline=240, what="the server was started again", pause=0.5)
        until(lambda: selector(objects, pod("mapped")) is not None, what="it places")
    assert {json.dumps(each) for each in selectors} == {'{"agentpool": "pool1"}'}
    until(lambda: not status(fairlead)["problems"], what="its last worker has the policies")


@pytest.mark.usefixtures("restored")
def test_a_server_without_policies_says_what_to_do_in_the_words_that_the_docs_explain(
    python: EmbeddedCluster, objects: clients.Objects
) -> None:
    config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    assert config_map
    pid = python.servers()["serve"]["pid"]
    assert pid
    objects.merge(config_map, {"metadata": {"annotations": {ENGINE_ANNOTATION: None}}})
    os.kill(pid, signal.SIGKILL)
    message = "the server in Python is starting: retry in a second"

    def is_told() -> bool:
        try:
            selector(objects, pod("mapped"))
        except Refused as refused:
            return f"failed to call webhook: {message}" in refused.message
        return False

    waiting.until(is_told, deadline=240, what="the user reads that it is starting", pause=0.5)
    assert message in (paths.root() / "docs" / "operations.md").read_text()
    objects.merge(config_map, {"metadata": {"annotations": {ENGINE_ANNOTATION: PYTHON_ENGINE}}})
    until(lambda: selector(objects, pod("mapped")) is not None, what="it places again")


def test_an_intent_is_disabled_until_it_is_enabled(
    python: EmbeddedCluster, objects: clients.Objects, fairlead: Run
) -> None:
    def placed() -> bool:
        return selector(objects, pod("mapped")) is not None

    disabled = fairlead("disable", "--intent", "node-pool", "--reason", "a test")
    assert disabled.returncode == 0, disabled.stderr
    until(lambda: not placed(), what="the API server asks no more")
    (sentence,) = status(fairlead)["problems"]
    assert "node-pool was disabled at " in sentence
    assert fairlead("enable").returncode == 0
    until(placed, what="the API server asks again")


def test_its_certificate_is_rotated(python: EmbeddedCluster, fairlead: Run) -> None:
    rotated = fairlead("rotate", "cert")
    assert rotated.returncode == 0, rotated.stderr
    assert selector(python.objects(), pod("mapped")) == {"agentpool": "pool1"}
    assert status(fairlead)["problems"] == []


@pytest.mark.parametrize("other", ["opa", "cel"])
def test_another_engine_takes_over_and_gives_back_without_a_pod_unplaced(
    python: EmbeddedCluster, objects: clients.Objects, fairlead: Run, other: str
) -> None:
    with writer(python.kubeconfig) as selectors:
        taken = fairlead("deploy", "--engine", other)
        assert taken.returncode == 0, taken.stderr
        document = status(fairlead)
        assert (document["engine"], document["problems"]) == (other, [])
        assert "serve" not in python.servers()
        entry = fairlead("rollback", "1")
        config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {}
        assert entry.returncode == 2
        assert "python enforced entry 1" in entry.stderr, json.dumps(config_map["metadata"])
        back = fairlead("deploy", "--engine", "python")
        assert back.returncode == 0, back.stderr
    assert {json.dumps(each) for each in selectors} == {'{"agentpool": "pool1"}'}
    document = status(fairlead)
    assert (document["engine"], document["problems"]) == ("python", [])
    assert not OF_OPA & python.servers().keys()
    for kind in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"):
        assert objects.list(ADMISSION, kind, None) == []


def test_audit_and_diff_know_its_policies(objects: clients.Objects, fairlead: Run) -> None:
    objects.create(pod("mapped"))
    try:
        audit = json.loads(fairlead("audit", "-o", "json").stdout)
        assert sum(audit["counts"].values()) == 1
        same = fairlead("diff", "-o", "json")
        assert same.returncode == 0, same.stderr
        revisions = json.loads(same.stdout)["revisions"]
        assert revisions["deployed"] == revisions["new"]
        assert fairlead("diff", "-o", "json", settings="nodeLabel: gke\n").returncode == 1
    finally:
        objects.delete("v1", "Pod", "a", "mapped")


def test_uninstall_leaves_nothing(python: EmbeddedCluster, fairlead: Run) -> None:
    done = fairlead("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    objects = python.objects()
    assert "serve" not in python.servers()
    assert objects.get("v1", "Namespace", NAMESPACE) is None
    assert objects.apply(pod("mapped"), dry_run=True)["spec"].get("nodeSelector") is None

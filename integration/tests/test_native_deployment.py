"""Policies that the API server enforces itself: they are deployed, changed, compared, rolled back
and exchanged for OPA, and no pod is created unplaced meanwhile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine_clusters
import pytest
from applied import applied
from dry_runs import pod, selector, writer
from engine_clusters import Run
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import NAMESPACE, POLICIES
from fairlead.engines.cel import specialised
from fairlead.engines.live import marker
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.kube.own_kinds import EXCEPTIONS, FAIRLEADS, GROUP
from fairlead.kube.own_kinds import POLICIES as OWN_POLICIES
from fairlead.operations import deploy, push
from fairlead.policy import policy_objects
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["cel"]
pytestmark = pytest.mark.embedded("it has no OPA")

ADMISSION = "admissionregistration.k8s.io/v1"
QUIET = Progress()
POOLS = Settings.model_validate({"pools": {"pool1": {}, "pool2": {}}})
LIMITS = "intents:\n  replica-limits:\n    parameters:\n      ranges: [{min_replicas: 3}]\n"


@pytest.fixture(scope="module")
def native(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    yield cluster
    deploy.deploy(cluster, PolicySet.load(Settings()), engine="cel", progress=QUIET)


@pytest.fixture
def objects(native: EmbeddedCluster) -> clients.Objects:
    return native.objects()


@pytest.fixture
def restored(native: EmbeddedCluster) -> Iterator[None]:
    """The default settings are deployed again after the test."""
    yield
    deploy.deploy(native, PolicySet.load(Settings()), engine="cel", progress=QUIET)


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters are too large to stand in a policy, and so have an object."""
    monkeypatch.setattr(specialised, "LARGEST", 0)


@pytest.fixture
def fairlead(native: EmbeddedCluster, tmp_path: Path) -> Run:
    return engine_clusters.commands(native, tmp_path)


def problems(fairlead: Run) -> list[str]:
    shown = fairlead("status", "-o", "json")
    document = json.loads(shown.stdout)
    assert shown.returncode == (1 if document["problems"] else 0)
    assert document["engine"] == "cel"
    return list(document["problems"])


def test_it_places_and_refuses_without_a_pod_a_certificate_or_a_webhook(
    native: EmbeddedCluster, objects: clients.Objects
) -> None:
    assert selector(objects, pod("mapped")) == {"agentpool": "pool1"}
    assert selector(objects, pod("free")) is None
    with pytest.raises(Refused, match=r"sets spec\.nodeSelector disk=ssd") as refused:
        selector(objects, pod("mapped", nodeSelector={"disk": "ssd"}))
    assert refused.value.status == 403
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert objects.list(ADMISSION, kind, None) == []
    for version, kind in (("apps/v1", "Deployment"), ("v1", "Secret"), ("v1", "Service")):
        assert objects.list(version, kind, NAMESPACE) == []
    assert not {"opa", "sync"} & native.servers().keys()


def test_a_deployment_again_changes_nothing(objects: clients.Objects, fairlead: Run) -> None:
    planned = fairlead("diff", "--objects", "-o", "json")
    assert {row["action"] for row in json.loads(planned.stdout)} == {"unchanged"}
    again = fairlead("deploy", "-o", "json")
    assert {row["action"] for row in json.loads(again.stdout)} == {"unchanged"}
    assert problems(fairlead) == []


@pytest.mark.usefixtures("restored")
def test_objects_of_an_engine_before_count_and_a_push_says_that_nothing_follows_them(
    native: EmbeddedCluster, objects: clients.Objects
) -> None:
    with_opa = manifests.render_objects(PolicySet.load(Settings()), Credentials.fresh())
    kinds = [each for each in with_opa if each["kind"] == "CustomResourceDefinition"]
    settings = Settings(contact="#ours")
    (fairlead_object,) = policy_objects.of_policy_set(PolicySet.load(settings))
    with applied(objects, kinds):
        until(lambda: native.objects().serves(fairlead_object), what="the kind is served")
        native.objects().apply(fairlead_object)
        with pytest.raises(UsageError, match="with its engine no controller runs"):
            push.push(native, PolicySet.load(Settings()), progress=QUIET)
        deploy.deploy(native, PolicySet.load(Settings()), engine="cel", progress=QUIET)
        with pytest.raises(Refused, match="ask #ours"):
            selector(objects, pod("mapped", nodeSelector={"disk": "ssd"}))


def test_what_others_change_is_told_and_restored(objects: clients.Objects, fairlead: Run) -> None:
    name = "fairlead.node-pool"
    mutating, validating = (
        objects.get(ADMISSION, f"{kind}AdmissionPolicyBinding", name)
        for kind in ("Mutating", "Validating")
    )
    assert mutating
    assert validating
    few = {"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}
    objects.merge(mutating, {"spec": few})
    objects.delete(ADMISSION, "ValidatingAdmissionPolicyBinding", name)
    policy = mutating["spec"]["policyName"]
    objects.delete(ADMISSION, "MutatingAdmissionPolicy", policy)
    shown = "\n".join(problems(fairlead))
    assert f"MutatingAdmissionPolicy {policy} is missing" in shown
    assert f"ValidatingAdmissionPolicyBinding {name} is missing" in shown
    assert f"MutatingAdmissionPolicyBinding {name} is not what" in shown
    restored = fairlead("deploy")
    assert restored.returncode == 0, restored.stderr
    assert problems(fairlead) == []
    assert selector(objects, pod("mapped")) == {"agentpool": "pool1"}


@pytest.mark.usefixtures("restored", "no_room")
def test_a_policy_that_has_lost_its_parameters_refuses(
    native: EmbeddedCluster, objects: clients.Objects
) -> None:
    deploy.deploy(native, PolicySet.load(POOLS), progress=QUIET)
    assert selector(objects, pod("mapped")) == {"agentpool": "pool1"}
    binding = objects.get(ADMISSION, "ValidatingAdmissionPolicyBinding", "fairlead.node-pool")
    assert binding
    objects.delete("policy.fairlead.dev/v1", "NodePool", binding["spec"]["paramRef"]["name"])

    def refused() -> bool:
        try:
            objects.apply(pod("mapped"), dry_run=True)
        except Refused:
            return True
        return False

    until(refused, what="the API server knows that the parameters are gone")


@pytest.mark.usefixtures("restored")
def test_a_push_and_a_rollback_leave_no_pod_unplaced(
    native: EmbeddedCluster, objects: clients.Objects, fairlead: Run
) -> None:
    with writer(native.kubeconfig) as selectors:
        for label in ("gke", "agentpool"):
            deploy.deploy(
                native, PolicySet.load(Settings(node_label=label)), message=label, progress=QUIET
            )
        pushed = fairlead("push", "-m", "by hand", settings="nodeLabel: gke\n")
        assert pushed.returncode == 0, pushed.stderr
        back = fairlead("rollback", "-o", "json")
    assert back.returncode == 0, back.stderr
    assert json.loads(back.stdout)["direction"] == "back"
    assert selector(objects, pod("mapped")) == {"agentpool": "pool1"}
    given = {json.dumps(each) for each in selectors}
    assert given == {'{"agentpool": "pool1"}', '{"cloud.google.com/gke-nodepool": "pool1"}'}
    rows = json.loads(fairlead("history", "-o", "json").stdout)
    assert [row["action"] for row in rows[:4]] == ["rollback", "push", "deploy", "deploy"]
    assert [row["message"] for row in rows[1:4]] == ["by hand", "agentpool", "gke"]
    again = fairlead("push", settings="nodeLabel: agentpool\n")
    assert "no new entry" in again.stderr
    assert problems(fairlead) == []


@pytest.mark.usefixtures("restored", "no_room")
def test_instances_come_and_go_with_their_objects(
    native: EmbeddedCluster, objects: clients.Objects
) -> None:
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    metadata = {"name": "two", "namespace": "free"}
    two = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    limits = {"ranges": [{"min_replicas": 3}, {"max_replicas": 0}]}
    settings = Settings.model_validate({"intents": {"replica-limits": {"parameters": limits}}})
    deploy.deploy(native, PolicySet.load(settings), progress=QUIET)
    assert objects.list("policy.fairlead.dev/v1", "ReplicaLimits", None)
    with pytest.raises(Refused, match="replicas 2 is not"):
        objects.apply(two, dry_run=True)
    for _ in range(2):  # what the revision before needs is deleted by the deployment after the next
        deploy.deploy(native, PolicySet.load(Settings()), progress=QUIET)
        objects.apply(two, dry_run=True)
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        names = [each["metadata"]["name"] for each in objects.list(ADMISSION, kind, None)]
        assert not [name for name in names if "replica-limits" in name]
    definitions = objects.list("apiextensions.k8s.io/v1", "CustomResourceDefinition", None)
    of_people = {f"{plural}.{GROUP}" for plural, *_ in (FAIRLEADS, OWN_POLICIES, EXCEPTIONS)}
    assert {definition["metadata"]["name"] for definition in definitions} == of_people


@pytest.mark.usefixtures("restored")
def test_if_the_api_server_does_not_enforce_a_push_the_policies_before_come_back(
    native: EmbeddedCluster, objects: clients.Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed, calls = marker.placed, []

    def fails_once(*arguments: Any, **named: Any) -> Any:
        calls.append(named)
        if len(calls) == 2:  # the bindings have moved
            raise FairleadError("the API server is away")
        return placed(*arguments, **named)

    monkeypatch.setattr(marker, "placed", fails_once)
    with pytest.raises(FairleadError, match=r"away; revision \w{12} was put back"):
        push.push(native, PolicySet.load(Settings(node_label="gke")), progress=QUIET)
    assert selector(objects, pod("mapped")) == {"agentpool": "pool1"}


def test_mistakes_change_nothing(objects: clients.Objects, fairlead: Run, tmp_path: Path) -> None:
    before = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    wrong = fairlead("push", settings=LIMITS.replace("3", "x"))
    assert (wrong.returncode, "fairlead.yaml:4" in wrong.stderr) == (2, True), wrong.stderr
    assert fairlead("deploy", "--engine", "kyverno").returncode == 2
    assert "--sidecar is about OPA" in fairlead("deploy", "--sidecar", "sync").stderr
    assert "--restart is about OPA" in fairlead("push", "--restart").stderr
    shutil.copytree(paths.root() / "policies", tmp_path / "policies")
    (tmp_path / "policies" / "node_pool" / "engines" / "cel.yaml").unlink()
    lacking = fairlead("deploy", "--policies", str(tmp_path / "policies"))
    assert lacking.returncode == 2
    assert "cel.yaml: is missing, but writtenFor in intent.yaml names cel" in lacking.stderr
    assert objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) == before


@pytest.mark.usefixtures("restored", "no_room")
def test_a_tenant_changes_no_parameters_and_no_record(
    native: EmbeddedCluster, objects: clients.Objects
) -> None:
    """Not even one whom RBAC allows everything but to administer Fairlead."""
    deploy.deploy(native, PolicySet.load(POOLS), progress=QUIET)
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "careless"}}
    groups = ["", "policy.fairlead.dev", "apiextensions.k8s.io", "rbac.authorization.k8s.io"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    objects.apply({**rbac, "kind": "ClusterRole", "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "careless"}
    users = [{"apiGroup": role["apiGroup"], "kind": "User", "name": "tenant"}]
    objects.apply({**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": users})
    (parameters,) = objects.list("policy.fairlead.dev/v1", "NodePool", None)[-1:]
    name = parameters["metadata"]["name"]
    api = clients.connect(native.kubeconfig)
    for path in (
        f"/apis/policy.fairlead.dev/v1/nodepool/{name}",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepool.policy.fairlead.dev",
        f"/api/v1/namespaces/{NAMESPACE}/configmaps/{POLICIES}",
    ):
        for method, kind, body in (
            ("PATCH", "merge-patch+json", {"metadata": {"labels": {"a": "b"}}}),
            ("DELETE", "json", {}),
        ):
            answer = api.call_api(
                method,
                f"{api.configuration.host}{path}?dryRun=All",
                header_params={
                    "Content-Type": f"application/{kind}",
                    "Impersonate-User": "tenant",
                },
                body=body,
            )
            text = answer.read().decode()
            assert (answer.status, "ValidatingAdmissionPolicy 'fairlead-" in text) == (403, True)


def test_an_intent_is_disabled_until_it_is_enabled(
    native: EmbeddedCluster, objects: clients.Objects, fairlead: Run
) -> None:
    def placed() -> bool:
        return selector(objects, pod("mapped")) is not None

    disabled = fairlead("disable", "--intent", "node-pool", "--reason", "a test")
    assert disabled.returncode == 0, disabled.stderr
    until(lambda: not placed(), what="the API server has disabled it")
    (sentence,) = problems(fairlead)
    assert "node-pool was disabled at " in sentence
    assert "(a test)" in sentence
    events = objects.list("v1", "Event", NAMESPACE)
    assert "IntentDisabled" in {event["reason"] for event in events}
    deploy.deploy(native, PolicySet.load(Settings(contact="#platform")), progress=QUIET)
    assert (placed(), len(problems(fairlead))) == (False, 1)
    assert fairlead("disable", "--intent", "other").returncode == 2
    assert fairlead("enable").returncode == 0
    until(placed, what="the API server has enabled it")
    assert problems(fairlead) == []
    deploy.deploy(native, PolicySet.load(Settings()), progress=QUIET)
    assert "nothing was disabled" in fairlead("enable").stderr


def test_opa_takes_over_and_gives_back_without_a_pod_unplaced(
    native: EmbeddedCluster, objects: clients.Objects, fairlead: Run
) -> None:
    with writer(native.kubeconfig) as selectors:
        opa = fairlead("deploy", "--engine", "opa")
        assert opa.returncode == 0, opa.stderr
        assert json.loads(fairlead("status", "-o", "json").stdout)["engine"] == "opa"
        for kind in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"):
            assert objects.list(ADMISSION, kind, None) == []
        other = fairlead("rollback", "1")
        assert other.returncode == 2
        assert "cel enforced entry 1" in other.stderr
        cel = fairlead("deploy", "--engine", "cel")
        assert cel.returncode == 0, cel.stderr
    assert {json.dumps(each) for each in selectors} == {'{"agentpool": "pool1"}'}
    assert problems(fairlead) == []
    assert not {"opa", "sync"} & native.servers().keys()
    assert objects.list("apps/v1", "Deployment", NAMESPACE) == []


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


def test_uninstall_leaves_nothing(native: EmbeddedCluster, fairlead: Run) -> None:
    done = fairlead("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    objects = native.objects()
    for kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
        for each in (kind, f"{kind}Binding"):
            assert objects.list(ADMISSION, each, None) == []
    extensions = "apiextensions.k8s.io/v1"
    assert objects.list(extensions, "CustomResourceDefinition", None) == []
    assert objects.get("v1", "Namespace", NAMESPACE) is None
    assert objects.apply(pod("mapped"), dry_run=True)["spec"].get("nodeSelector") is None

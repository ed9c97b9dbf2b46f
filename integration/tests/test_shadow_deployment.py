"""One engine enforces the policies, and another one decides beside it without effect: they are
compared, their disagreements are shown, and no answer to a user ever depends on the second one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import engine_clusters
import pytest
from dry_runs import pod, selector, writer
from engine_clusters import Run
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE, SHADOW, SHADOW_ANNOTATION, SHADOW_WEBHOOKS
from fairlead.engines import enforcement
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it has a cluster of its own")

ADMISSION = "admissionregistration.k8s.io/v1"
PARAMETERS = "policy.fairlead.dev/v1"
QUIET = Progress()
SECRET = "hunter2-in-an-environment"


@pytest.fixture(scope="module")
def pair() -> Iterator[EmbeddedCluster]:
    with engine_clusters.started(f"shadow-{os.getpid()}", "opa") as cluster:
        enforcement.deploy(cluster, Settings(), engine="opa,cel", progress=QUIET)
        yield cluster


@pytest.fixture
def objects(pair: EmbeddedCluster) -> clients.Objects:
    return pair.objects()


@pytest.fixture
def fairlead(pair: EmbeddedCluster, tmp_path: Path) -> Run:
    return engine_clusters.commands(pair, tmp_path)


@pytest.fixture
def deployed(pair: EmbeddedCluster) -> Iterator[Callable[[str], None]]:
    """Deploys with these engines; after the test, opa enforces again, and cel is its shadow."""

    def deploy(engine: str) -> None:
        enforcement.deploy(pair, Settings(), engine=engine, progress=QUIET)

    yield deploy
    deploy("opa,cel")


def node_pool(cluster: EmbeddedCluster) -> dict[str, Any]:
    """The counts of node-pool as the shadow reports them."""
    rows = enforcement.status(cluster)["shadow"]["intents"]
    empty: dict[str, Any] = {
        "compared": 0,
        "agreed": 0,
        "failed": 0,
        "disagreed": {},
        "examples": [],
    }
    return next((row for row in rows if row["intent"] == "node-pool"), empty)


def wait(cluster: EmbeddedCluster, what: str, holds: Callable[[dict[str, Any]], bool]) -> Any:
    """The counts once the report says so."""

    def seen() -> dict[str, Any] | None:
        counts = node_pool(cluster)
        return counts if holds(counts) else None

    return until(seen, what=what, pause=1.0)


def send(objects: clients.Objects) -> None:
    """Pods of each kind, with the answers that the policies demand."""
    assert selector(objects, pod("mapped")) == {"agentpool": "pool1"}
    assert selector(objects, pod("free")) is None
    with pytest.raises(Refused, match=r"sets spec\.nodeSelector disk=ssd") as refused:
        selector(objects, pod("mapped", nodeSelector={"disk": "ssd"}))
    assert refused.value.status == 403


def test_both_engines_agree_about_the_same_requests(
    pair: EmbeddedCluster, objects: clients.Objects, fairlead: Run
) -> None:
    before = node_pool(pair)["compared"]
    for _ in range(3):
        send(objects)
    # Pods of `free` are nobody's business: API servers ask no engine about them.
    counts = wait(pair, "six pods are compared", lambda counts: counts["compared"] >= before + 6)
    assert (counts["agreed"], counts["failed"], counts["skipped"]) == (counts["compared"], 0, 0)
    shown = fairlead("status")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "shadow: cel beside opa since" in shown.stdout
    assert "0 disagree" in shown.stdout


def test_the_shadow_has_no_effect(objects: clients.Objects) -> None:
    assert objects.list(ADMISSION, "MutatingAdmissionPolicyBinding", None) == []
    bindings = [
        each
        for each in objects.list(ADMISSION, "ValidatingAdmissionPolicyBinding", None)
        if each["metadata"]["name"].startswith("fairlead.")
    ]
    assert bindings
    assert {tuple(each["spec"]["validationActions"]) for each in bindings} == {("Audit",)}
    webhooks = objects.get(ADMISSION, "MutatingWebhookConfiguration", SHADOW_WEBHOOKS)
    assert webhooks
    for webhook in webhooks["webhooks"]:
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 1)


def test_a_deployment_again_changes_nothing(fairlead: Run, pair: EmbeddedCluster) -> None:
    pid = pair.servers()[SHADOW]["pid"]
    planned = fairlead("diff", "--objects", "-o", "json")
    assert {row["action"] for row in json.loads(planned.stdout)} == {"unchanged"}, planned.stdout
    again = fairlead("deploy", "-o", "json")
    rows = [*json.loads(again.stdout)]
    assert {row["action"] for row in rows} == {"unchanged"}, again.stdout
    assert pair.servers()[SHADOW]["pid"] == pid
    assert node_pool(pair)["compared"] > 0


def test_a_disagreement_is_counted_and_shown_without_secrets(
    pair: EmbeddedCluster, objects: clients.Objects, fairlead: Run
) -> None:
    """An administrator changes the shadow by hand: no user notices anything."""
    (parameters,) = objects.list(PARAMETERS, "NodePool", None)
    objects.merge(parameters, {"settings": {"node_label": "other"}})
    container = {"name": "c", "image": "i", "env": [{"name": "PASSWORD", "value": SECRET}]}
    try:
        for _ in range(2):
            send(objects)
            selector(objects, pod("mapped", containers=[container]))
            selector(objects, pod("mapped", nodeSelector={"agentpool": "pool1"}))
        counts = wait(
            pair,
            "both kinds of disagreement are reported",
            lambda counts: bool(
                counts["disagreed"].get("object") and counts["disagreed"].get("allowed")
            ),
        )
        shown = fairlead("status")
    finally:
        objects.merge(parameters, {"settings": {"node_label": "agentpool"}})
    allowed, changed = counts["examples"]
    assert (allowed["differs"], changed["differs"]) == ("allowed", "object")
    assert allowed["enforcing"] == "allowed"
    assert allowed["shadow"].startswith("refused (")
    assert (allowed["operation"], allowed["kind"]) == ("CREATE", "Pod")
    assert (allowed["namespace"], allowed["name"]) == ("mapped", "a")
    assert "object.spec.nodeSelector.agentpool: 'pool1', and none" in changed["why"]
    assert "object.spec.nodeSelector.other: none, and 'pool1'" in changed["why"]
    written = objects.get("v1", "ConfigMap", SHADOW, NAMESPACE)
    assert SECRET not in json.dumps(written)
    assert SECRET not in shown.stdout
    assert "CREATE of Pod mapped/a by fairlead-admin" in shown.stdout
    # It is the hand that changed the shadow which is a problem, and not the disagreement.
    (problem,) = json.loads(fairlead("status", "-o", "json").stdout)["problems"] or [""]
    assert problem in ("",) or problem.startswith("NodePool ")


def test_what_is_skewed_for_a_moment_is_no_disagreement(
    pair: EmbeddedCluster, objects: clients.Objects
) -> None:
    """A namespace that is relabelled while its pods are created."""
    before = node_pool(pair)
    for value in ("pool1", "pool2") * 5:
        label = {"metadata": {"labels": {"agentpool": value}}}
        identity = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mapped"}}
        objects.merge(identity, label)
        with suppress(Refused):  # decided by both states: retry, says its message
            selector(objects, pod("mapped"))
    objects.merge(identity, {"metadata": {"labels": {"agentpool": "pool1"}}})
    after = wait(
        pair, "all ten are compared", lambda counts: counts["compared"] >= before["compared"] + 10
    )
    assert after["disagreed"] == before["disagreed"]


def test_a_push_and_a_rollback_bring_the_shadow_along(
    pair: EmbeddedCluster, objects: clients.Objects, fairlead: Run
) -> None:
    with writer(pair.kubeconfig) as selectors:
        pushed = fairlead("push", "-o", "json", settings="nodeLabel: gke\n")
        assert pushed.returncode == 0, pushed.stderr
        counts = wait(pair, "the new revision is compared", lambda counts: counts["compared"] > 3)
        assert counts["agreed"] == counts["compared"], counts
        back = fairlead("rollback", "-o", "json")
        assert back.returncode == 0, back.stderr
        assert json.loads(back.stdout)["warnings"] == []
        counts = wait(pair, "the old revision is compared", lambda counts: counts["compared"] > 3)
    assert counts["agreed"] == counts["compared"], counts
    assert selector(objects, pod("mapped")) == {"agentpool": "pool1"}
    given = {json.dumps(each) for each in selectors}
    assert given == {'{"agentpool": "pool1"}', '{"cloud.google.com/gke-nodepool": "pool1"}'}
    assert enforcement.status(pair)["problems"] == []


def test_a_disabled_intent_is_not_compared(
    pair: EmbeddedCluster, objects: clients.Objects, fairlead: Run
) -> None:
    def off() -> list[bool]:
        webhooks = objects.get(ADMISSION, "MutatingWebhookConfiguration", SHADOW_WEBHOOKS)
        assert webhooks
        return [bool(each["objectSelector"]) for each in webhooks["webhooks"]]

    assert fairlead("disable", "--reason", "a test").returncode == 0
    assert all(off())
    again = fairlead("deploy")
    assert again.returncode == 0, again.stderr
    assert all(off())
    assert fairlead("enable").returncode == 0
    assert not any(off())
    assert enforcement.status(pair)["problems"] == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_dead_or_hung_shadow_changes_no_answer_and_is_started_again(
    pair: EmbeddedCluster, objects: clients.Objects, number: signal.Signals
) -> None:
    pid = pair.servers()[SHADOW]["pid"]
    assert pid
    before = node_pool(pair)["compared"]
    with writer(pair.kubeconfig) as selectors:
        os.kill(pid, number)
        send(objects)

        def again() -> bool:
            return pair.servers()[SHADOW]["pid"] not in (None, pid)

        waiting.until(again, deadline=240, what="the shadow was started again", pause=0.5)
        send(objects)
        counts = wait(pair, "it counts on", lambda counts: counts["compared"] > before)
    assert {json.dumps(each) for each in selectors} == {'{"agentpool": "pool1"}'}
    assert counts["agreed"] == counts["compared"] - sum(counts["disagreed"].values())


def test_a_tenant_changes_nothing_of_the_shadow(
    pair: EmbeddedCluster, objects: clients.Objects
) -> None:
    """Not even one whom RBAC allows everything but to administer Fairlead; and the shadow itself
    changes nothing but its report.
    """
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "careless"}}
    groups = ["", "apps", "admissionregistration.k8s.io", "rbac.authorization.k8s.io"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    objects.apply({**rbac, "kind": "ClusterRole", "rules": rules})
    shadow = f"system:serviceaccount:{NAMESPACE}:{SHADOW}"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "careless"}
    users = [
        {"apiGroup": role["apiGroup"], "kind": "User", "name": name} for name in ("tenant", shadow)
    ]
    objects.apply({**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": users})
    api = clients.connect(pair.kubeconfig)

    def patched(user: str, path: str, body: Any) -> tuple[int, str]:
        answer = api.call_api(
            "PATCH",
            f"{api.configuration.host}{path}?dryRun=All",
            header_params={
                "Content-Type": "application/merge-patch+json",
                "Impersonate-User": user,
            },
            body=body,
        )
        return answer.status, answer.read().decode()

    report = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{SHADOW}"
    marked = {"metadata": {"labels": {"a": "b"}}}
    for user in ("tenant", shadow):
        for path in (
            f"/apis/{ADMISSION}/mutatingwebhookconfigurations/{SHADOW_WEBHOOKS}",
            f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{SHADOW}",
            f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{SHADOW}",
            f"/api/v1/namespaces/{NAMESPACE}/configmaps/fairlead-policies",
            report,
        ):
            status, text = patched(user, path, marked)
            assert (status, "ValidatingAdmissionPolicy 'fairlead-" in text) == (403, True), path
    assert patched("tenant", report, {"data": {"a": "b"}})[0] == 403
    assert patched(shadow, report, {"data": {"a": "b"}})[0] == 200
    own = clients.Objects(clients.connect(pair.path / "shadow.kubeconfig"))
    objects.delete(rbac["apiVersion"], "ClusterRoleBinding", "careless")
    with pytest.raises(Refused, match="forbidden"):
        own.list("v1", "Secret", NAMESPACE)
    with pytest.raises(Refused, match="forbidden"):
        own.list("v1", "ConfigMap", NAMESPACE)


def test_without_its_parameters_the_shadow_refuses_nothing(
    pair: EmbeddedCluster,
    objects: clients.Objects,
    fairlead: Run,
    deployed: Callable[[str], None],
) -> None:
    (parameters,) = objects.list(PARAMETERS, "NodePool", None)
    with writer(pair.kubeconfig) as selectors:
        objects.delete(PARAMETERS, "NodePool", parameters["metadata"]["name"])
        counts = wait(
            pair,
            "the report says that they are missing",
            lambda counts: bool(counts["failed"]),
        )
    assert {json.dumps(each) for each in selectors} == {'{"agentpool": "pool1"}'}
    assert counts["failure"] == f"NodePool {parameters['metadata']['name']} is missing"
    assert any("NodePool" in problem for problem in enforcement.status(pair)["problems"])


def test_the_shadow_takes_over_and_gives_back_without_a_pod_unplaced(
    pair: EmbeddedCluster,
    objects: clients.Objects,
    fairlead: Run,
    deployed: Callable[[str], None],
) -> None:
    with writer(pair.kubeconfig) as selectors:
        for engines in ("cel,opa", "cel", "opa,cel"):
            done = fairlead("deploy", "--engine", engines)
            assert done.returncode == 0, done.stderr
            document = enforcement.status(pair)
            assert (document["engine"], document["problems"]) == (engines.split(",")[0], [])
            send(objects)
            if "," in engines:
                counts = wait(pair, f"{engines} is compared", lambda counts: counts["compared"] > 3)
                assert counts["agreed"] == counts["compared"], counts
            else:
                assert not {SHADOW, "opa", "proxy"} & pair.servers().keys()
    assert {json.dumps(each) for each in selectors} == {'{"agentpool": "pool1"}'}


def test_with_opa_as_shadow_a_push_reaches_it_and_its_end_changes_no_answer(
    pair: EmbeddedCluster,
    objects: clients.Objects,
    fairlead: Run,
    deployed: Callable[[str], None],
) -> None:
    deployed("cel,opa")
    pushed = fairlead("push", "-o", "json", settings="nodeLabel: gke\n")
    assert pushed.returncode == 0, pushed.stderr
    with writer(pair.kubeconfig) as selectors:
        counts = wait(pair, "the push is compared", lambda counts: counts["compared"] > 3)
        assert counts["agreed"] == counts["compared"], counts
        pid = pair.servers()["opa"]["pid"]
        assert pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: pair.servers()["opa"]["pid"] not in (None, pid), what="OPA runs")
        back = fairlead("rollback", "-o", "json")
        assert back.returncode == 0, back.stderr
        wait(pair, "the rollback is compared", lambda counts: counts["agreed"] > 3)
    given = {json.dumps(each) for each in selectors}
    assert given == {'{"agentpool": "pool1"}', '{"cloud.google.com/gke-nodepool": "pool1"}'}
    until(lambda: not enforcement.status(pair)["problems"], what="no problems are left")


def test_python_can_be_the_shadow_and_have_one(
    pair: EmbeddedCluster,
    objects: clients.Objects,
    fairlead: Run,
    deployed: Callable[[str], None],
) -> None:
    for engines in ("cel,python", "python,cel"):
        deployed(engines)
        send(objects)
        send(objects)
        counts = wait(pair, f"{engines} is compared", lambda counts: counts["compared"] >= 4)
        assert counts["agreed"] == counts["compared"], counts
        assert enforcement.status(pair)["problems"] == []


def test_a_rollback_to_policies_without_a_shadow_ends_it(
    pair: EmbeddedCluster, fairlead: Run, deployed: Callable[[str], None]
) -> None:
    deployed("opa")
    deployed("opa,cel")
    back = fairlead("rollback", "-o", "json")
    assert back.returncode == 0, back.stderr
    (warning,) = json.loads(back.stdout)["warnings"]
    assert "the shadow cel has ended" in warning
    assert "fairlead deploy --engine opa,cel" in warning
    require_no_shadow(pair)


def test_one_engine_alone_leaves_nothing_of_the_shadow(
    pair: EmbeddedCluster,
    objects: clients.Objects,
    fairlead: Run,
    deployed: Callable[[str], None],
) -> None:
    done = fairlead("deploy", "--engine", "opa")
    assert done.returncode == 0, done.stderr
    require_no_shadow(pair)
    assert selector(objects, pod("mapped")) == {"agentpool": "pool1"}


def test_wrong_pairs_are_refused(fairlead: Run) -> None:
    for engines, words in (
        ("opa,python", "both need the Deployment opa"),
        ("opa,kyverno", "'kyverno' is no engine that a cluster can have"),
        ("cel,cel", "two different ones"),
        ("opa,cel,python", "name one engine, or two"),
    ):
        refused = fairlead("deploy", "--engine", engines)
        assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr


def test_uninstall_leaves_nothing(pair: EmbeddedCluster, fairlead: Run) -> None:
    done = fairlead("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    objects = pair.objects()
    assert SHADOW not in pair.servers()
    assert objects.get("v1", "Namespace", NAMESPACE) is None
    for kind in ("MutatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding"):
        assert objects.list(ADMISSION, kind, None) == []
    extensions = "apiextensions.k8s.io/v1"
    assert objects.list(extensions, "CustomResourceDefinition", None) == []


def require_no_shadow(cluster: EmbeddedCluster) -> None:
    """Nothing is left of a shadow: no object, no server, and no record."""
    objects = cluster.objects()
    until(lambda: not enforcement.status(cluster)["problems"], what="no problem is left")
    document = enforcement.status(cluster)
    assert document["engine"] == "opa"
    assert "shadow" not in document
    assert SHADOW not in cluster.servers()
    for kind in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"):
        assert objects.list(ADMISSION, kind, None) == []
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        names = [each["metadata"]["name"] for each in objects.list(ADMISSION, kind, None)]
        assert not [name for name in names if name.startswith("fairlead.")]
    extensions = "apiextensions.k8s.io/v1"
    assert objects.list(extensions, "CustomResourceDefinition", None) == []
    for version, kind, namespace in (
        (ADMISSION, "MutatingWebhookConfiguration", None),
        ("apps/v1", "Deployment", NAMESPACE),
        ("v1", "Service", NAMESPACE),
        ("v1", "Secret", NAMESPACE),
        ("v1", "ServiceAccount", NAMESPACE),
        ("networking.k8s.io/v1", "NetworkPolicy", NAMESPACE),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", None),
        ("rbac.authorization.k8s.io/v1", "Role", NAMESPACE),
    ):
        names = [each["metadata"]["name"] for each in objects.list(version, kind, namespace)]
        assert not [name for name in names if SHADOW in name or name == SHADOW_WEBHOOKS], kind
    config_map = objects.get("v1", "ConfigMap", "fairlead-policies", NAMESPACE)
    assert config_map
    assert SHADOW_ANNOTATION not in config_map["metadata"]["annotations"]

"""`fairlead audit` on pods and workloads as an API server stores them, with the real OPA."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairlead.admission import asked, audit, batch, inventory
from fairlead.admission.asked import Webhooks
from fairlead.admission.audit import (
    ALONE,
    CHANGED,
    NOT_ASKED,
    OUTSIDE,
    PLACED,
    REFUSED,
    UNMAPPED,
    Finding,
)
from fairlead.admission.earlier_pools import Pools
from fairlead.admission.inventory import Subject
from fairlead.cli.decisions import grouped
from fairlead.common.progress import Progress
from fairlead.deployment import disabled_objects
from fairlead.kube import admission_reviews
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.requests import Kind
from fairlead.settings.models import Pool, Settings, Toleration

NAMESPACES = {
    name: {"metadata": {"name": name, "labels": labels}}
    for name, labels in {
        "payments": {"agentpool": "pool1"},
        "free": {},
        "out": {"agentpool": ""},
    }.items()
}
NODES = {"pool1-0": {"agentpool": "pool1"}, "pool2-0": {"agentpool": "pool2"}, "bare": {}}
TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]


def pod(
    namespace: str = "payments", *, author: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """A pod as it is stored; `author` has the fields of the spec that its author set."""
    fields: dict[str, Any] = {"f:spec": {f"f:{key}": {} for key in author or {}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "namespace": namespace,
            "uid": "1",
            "managedFields": [
                {"manager": "kubectl", "operation": "Update", "fieldsV1": fields},
                {
                    "manager": "kubelet",
                    "subresource": "status",
                    "fieldsV1": {"f:spec": {"f:nodeName": {}}},
                },
            ],
        },
        "spec": {"containers": [], "tolerations": TOLERATIONS, **(author or {}), **spec},
        "status": {"phase": "Running"},
    }


def owned(manifest: dict[str, Any], api_version: str, kind: str, name: str) -> dict[str, Any]:
    """The same pod, created by a controller."""
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "controller": True}
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def mirrored(manifest: dict[str, Any]) -> dict[str, Any]:
    """The same pod, with the annotation of a mirror pod."""
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "annotations": {"kubernetes.io/config.mirror": "x"}},
    }


def workload(
    kind: str, spec: dict[str, Any], api_version: str = "apps/v1", **more: Any
) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "payments"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, **more}


def found(
    subjects: list[Subject], settings: Settings | None = None, webhooks: Webhooks | None = None
) -> list[Finding]:
    """The findings on them, with the webhooks that a deployment brings, or with `webhooks`."""
    settings = settings or Settings()
    reviews = [review for subject in subjects for review in subject.reviews]
    webhooks = webhooks or asked.rendered(PolicySet.load(settings.enforced()))
    admissions = asked.ask(webhooks, reviews, NAMESPACES, complete=True, progress=Progress())
    answers = iter(
        audit.decide(
            reviews,
            admissions,
            modules=PolicySet.load(settings.enforced()).modules,
            kubernetes={"namespaces": NAMESPACES},
            progress=Progress(),
        )
    )
    return [
        audit.judge(subject, [next(answers) for _ in subject.reviews], NODES)
        for subject in subjects
    ]


def of(
    stored: dict[str, Any], settings: Settings | None = None, webhooks: Webhooks | None = None
) -> Finding:
    """The finding on one pod or workload."""
    if stored["kind"] == "Pod":
        subjects = inventory.of_pod(stored, Pools(settings or Settings()))
    else:
        path = (
            ("spec", "jobTemplate", "spec", "template")
            if stored["kind"] == "CronJob"
            else ("spec", "template")
        )
        subjects = inventory.of_workload(stored, path)
    return found(list(subjects), settings, webhooks)[0]


def test_an_object_that_runs_no_pods_is_judged_by_its_creation_alone() -> None:
    kind = Kind(group="example.com", version="v1", kind="Proxy", resource="proxies")
    stored = {
        "apiVersion": "example.com/v1",
        "kind": "Proxy",
        "metadata": {"name": "web", "namespace": "payments", "uid": "1"},
        "status": {},
    }
    subject = inventory.of_object(stored, kind)
    (review,) = subject.reviews
    assert review["request"]["resource"] == {
        "group": "example.com",
        "version": "v1",
        "resource": "proxies",
    }
    assert review["request"]["object"] == {
        "apiVersion": "example.com/v1",
        "kind": "Proxy",
        "metadata": {"name": "web", "namespace": "payments"},
    }
    (finding,) = found([subject])
    assert (finding.finding, finding.pool, finding.asked) == (ALONE, None, False)


def test_an_object_without_a_namespace_has_none_in_its_review() -> None:
    kind = Kind(group="example.com", version="v1", kind="Proxy", resource="proxies")
    stored = {"apiVersion": "example.com/v1", "kind": "Proxy", "metadata": {"name": "web"}}
    subject = inventory.of_object(stored, kind)
    assert subject.namespace == ""
    assert "namespace" not in subject.reviews[0]["request"]


def test_only_kinds_of_other_objects_are_read_besides() -> None:
    declared: dict[str, object] = {"pools": {"pool1": {}, "pool2": {}}}
    settings = Settings.model_validate(declared)
    kinds = {
        name: inventory.further_kinds(PolicySet.load(chosen).active)
        for name, chosen in (("default", Settings()), ("pools", settings))
    }
    assert kinds["default"] == []
    assert [kind.path for kind in kinds["pools"]] == ["/Namespace"]


@pytest.mark.parametrize(
    ("stored", "finding", "words"),
    [
        (pod(nodeName="pool1-0", nodeSelector={"agentpool": "pool1"}), PLACED, ""),
        (pod(nodeSelector={"agentpool": "pool1"}), PLACED, ""),
        (pod(nodeName="pool1-0"), CHANGED, 'add /spec/nodeSelector {"agentpool": "pool1"}'),
        (pod(), CHANGED, "add /spec/nodeSelector"),
        (pod(author={"nodeName": "pool1-0"}), REFUSED, "remove spec.nodeName"),
        (pod(nodeSelector={"disk": "ssd"}, nodeName="pool1-0"), REFUSED, "spec.nodeSelector disk"),
        (
            pod(nodeName="pool2-0"),
            OUTSIDE,
            "runs on pool2-0, which is not labelled agentpool=pool1",
        ),
        (pod(nodeName="bare"), OUTSIDE, "runs on bare"),
        (pod(nodeName="pool2-0", nodeSelector={"agentpool": "pool1"}), OUTSIDE, "runs on pool2-0"),
        (pod(author={"nodeName": "pool2-0"}), OUTSIDE, "would be refused: "),
        (pod(nodeName="gone", nodeSelector={"agentpool": "pool1"}), PLACED, ""),
        (pod("free", author={"nodeName": "pool2-0"}), UNMAPPED, ""),
        (pod("out", nodeSelector={"disk": "ssd"}), UNMAPPED, ""),
        (owned(pod(nodeName="pool2-0"), "apps/v1", "DaemonSet", "agent"), ALONE, ""),
        (owned(pod(nodeName="pool2-0"), "acme.io/v1", "DaemonSet", "agent"), OUTSIDE, ""),
        (owned(mirrored(pod(author={"nodeName": "pool2-0"})), "v1", "Node", "pool2-0"), ALONE, ""),
        (
            owned(mirrored(pod(author={"nodeName": "pool2-0"})), "v1", "Node", "pool1-0"),
            OUTSIDE,
            "",
        ),
        (mirrored(pod(author={"nodeName": "pool2-0"})), OUTSIDE, ""),
        (owned(pod(author={"nodeName": "pool2-0"}), "v1", "Node", "pool2-0"), OUTSIDE, ""),
    ],
)
def test_a_pod_is_judged_as_its_author_would_send_it_again(
    stored: dict[str, Any], finding: str, words: str
) -> None:
    judged = of(stored)
    assert judged.finding == finding
    assert words in judged.message
    assert bool(words) <= bool(judged.message)


def test_a_pod_of_which_nobody_noted_who_wrote_what_was_bound_by_the_scheduler() -> None:
    stored = pod(author={"nodeName": "pool1-0"}, nodeSelector={"agentpool": "pool1"})
    del stored["metadata"]["managedFields"]
    assert of(stored).finding == PLACED


def test_a_finding_names_the_pool_and_the_node() -> None:
    assert of(pod(nodeName="pool2-0")) == Finding(
        "payments",
        "Pod",
        "web",
        "pool1",
        "pool2-0",
        OUTSIDE,
        "runs on pool2-0, which is not labelled agentpool=pool1",
    )


TEMPLATE = {"metadata": {"creationTimestamp": None}, "spec": {"containers": []}}
BAD = {"spec": {"containers": [], "nodeSelector": {"agentpool": "pool2"}}}
GOOD = {"spec": {"containers": [], "nodeSelector": {"agentpool": "pool1"}}}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"])
def test_a_workload_is_judged_by_the_pods_that_it_makes(kind: str) -> None:
    assert of(workload(kind, {"template": TEMPLATE})).finding == CHANGED
    assert of(workload(kind, {"template": GOOD})).finding == PLACED
    refused = of(workload(kind, {"template": BAD}))
    assert refused.finding == REFUSED
    name = "web-0" if kind == "StatefulSet" else "web-*"
    assert f'pod "{name}" sets spec.nodeSelector agentpool=' in refused.message


def test_the_pods_of_a_stateful_set_are_numbered_from_where_it_says() -> None:
    refused = of(workload("StatefulSet", {"template": BAD, "ordinals": {"start": 5}}))
    assert 'pod "web-5" sets spec.nodeSelector' in refused.message


def test_a_daemon_set_that_an_earlier_pool_placed_is_told_with_the_way_out() -> None:
    note = '{"nodeSelector":{"agentpool":"pool2"},"tolerations":[]}'
    template = {"metadata": {"annotations": {"fairlead.dev/assigned": note}}, **BAD}
    moved = workload("DaemonSet", {"template": template})
    refused = of(moved)
    assert (refused.finding, refused.pool) == (REFUSED, "pool1")
    assert refused.message.endswith("kubectl -n payments rollout restart daemonset web")
    withdrawn = of({**moved, "metadata": {"name": "web", "namespace": "free"}})
    assert (withdrawn.finding, withdrawn.pool) == (CHANGED, None)
    assert withdrawn.message.startswith(
        "remove /spec/template/spec/nodeSelector; remove /spec/template/metadata/"
    )


def test_a_cron_jobs_pods_are_those_of_its_jobs() -> None:
    spec = {"jobTemplate": {"spec": {"template": BAD}}}
    assert of(workload("CronJob", spec, "batch/v1")).finding == REFUSED


def test_what_another_workload_makes_is_judged_there_and_a_job_that_is_over_nowhere() -> None:
    template = ("spec", "template")
    made = owned(workload("ReplicaSet", {"template": BAD}), "apps/v1", "Deployment", "web")
    assert list(inventory.of_workload(made, template)) == []
    made = owned(workload("ReplicaSet", {"template": BAD}), "acme.io/v1", "Rollout", "web")
    assert len(list(inventory.of_workload(made, template))) == 1
    for conditions, count in (
        ([{"type": "Complete", "status": "True"}], 0),
        ([{"type": "Failed", "status": "True"}], 0),
        ([{"type": "Suspended", "status": "True"}], 1),
        (None, 1),
    ):
        job = workload("Job", {"template": BAD}, "batch/v1", status={"conditions": conditions})
        assert len(list(inventory.of_workload(job, template))) == count


def test_enforcement_warn_is_audited_as_if_it_denied() -> None:
    stored = pod(nodeSelector={"disk": "ssd"})
    assert of(stored, Settings.model_validate({"enforcement": "warn"})).finding == REFUSED


def calling(**webhook: Any) -> Webhooks:
    """A webhook for all pods, but for what these fields exclude."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}
    webhooks = [{"name": "a.node-pool.fairlead.dev", "rules": [rule], **webhook}]
    configuration = {"kind": asked.KINDS[0], "metadata": {"name": "fairlead"}, "webhooks": webhooks}
    return Webhooks((configuration,), deployed=True)


@pytest.mark.parametrize(
    ("stored", "finding", "message"),
    [
        (pod(), NOT_ASKED, "the object has no label placed"),
        (pod(author={"nodeName": "pool1-0"}), NOT_ASKED, "the object has no label placed"),
        (pod(nodeSelector={"agentpool": "pool1"}), PLACED, ""),
        (pod(nodeName="bare"), OUTSIDE, "runs on bare, which is not labelled agentpool=pool1"),
        (pod("free"), UNMAPPED, ""),
        (workload("Deployment", {"template": BAD}), NOT_ASKED, "the object has no label placed"),
    ],
)
def test_a_pod_that_opa_is_not_asked_about_is_neither_refused_nor_placed(
    stored: dict[str, Any], finding: str, message: str
) -> None:
    selector = {"matchExpressions": [{"key": "placed", "operator": "Exists"}]}
    judged = of(stored, webhooks=calling(objectSelector=selector))
    assert (judged.finding, judged.message) == (finding, message)
    assert (judged.asked, judged.reason) == (False, "the object has no label placed")


def test_webhooks_of_another_settings_file_do_not_ask_for_its_default_pool() -> None:
    settings = Settings(default_pool="pool1")
    assert of(pod("free"), settings).finding == CHANGED
    judged = of(pod("free"), settings, asked.rendered(PolicySet.load(Settings())))
    assert (judged.finding, judged.pool) == (NOT_ASKED, "pool1")
    assert judged.message == 'namespace "free" has no label agentpool'


def test_a_pod_whose_match_conditions_fail_is_refused_without_opa() -> None:
    conditions = [{"name": "urgent", "expression": "object.spec.priority > 3"}]
    judged = of(pod(), webhooks=calling(matchConditions=conditions))
    assert (judged.finding, judged.asked) == (REFUSED, False)
    assert judged.message.endswith("no such key: priority")


LARGE: dict[str, Any] = {
    "containers": [{"name": "c", "env": [{"name": f"V{n}", "value": "x"} for n in range(10_001)]}]
}


TOO_LARGE = [pod(**LARGE), workload("DaemonSet", {"template": {"spec": LARGE}})]


@pytest.mark.parametrize("stored", TOO_LARGE)
def test_an_object_that_is_too_large_is_refused_as_by_opas_plugin(
    stored: dict[str, Any],
) -> None:
    review = admission_reviews.build({**stored, "metadata": {"namespace": "payments"}})
    (told,) = asked.ask(
        asked.rendered(PolicySet.load(Settings())),
        [review],
        NAMESPACES,
        complete=True,
        progress=Progress(),
    )
    assert told.asked
    question = told.question(review)
    assert (question["kind"], question["changes"]) == ("ReducedReview", True)
    assert "spec" not in question["request"]["object"]
    judged = of(stored)
    assert judged.finding == REFUSED
    assert judged.message.startswith("it has more than 10000 entries in its lists and maps")


def test_a_patch_that_only_a_validating_webhook_asks_for_is_refused() -> None:
    brought = asked.rendered(PolicySet.load(Settings()))
    validating = [each for each in brought.configurations if each["kind"] == asked.KINDS[1]]
    judged = of(pod(), webhooks=replace(brought, configurations=tuple(validating)))
    assert (judged.finding, judged.asked) == (REFUSED, True)
    assert "which the API server does not accept" in judged.message


@pytest.mark.parametrize(
    ("stored", "finding", "message"),
    [
        (pod(), NOT_ASKED, "no webhook of node-pool asks OPA"),
        (pod(author={"nodeName": "pool1-0"}), NOT_ASKED, "no webhook of node-pool asks OPA"),
        (pod(nodeSelector={"agentpool": "pool1"}), PLACED, ""),
    ],
)
def test_an_intent_decides_only_where_its_own_webhooks_ask(
    stored: dict[str, Any], finding: str, message: str
) -> None:
    client = {"url": "https://opa/intents/another"}
    judged = of(stored, webhooks=calling(clientConfig=client))
    assert (judged.finding, judged.message, judged.asked) == (finding, message, True)


LABELS = {"intents": {"required-labels": {"parameters": {"labels": [{"key": "team"}]}}}}


def deployed(settings: Settings) -> Webhooks:
    """The webhooks of a cluster that Fairlead is deployed in by these settings."""
    return replace(asked.rendered(PolicySet.load(settings)), deployed=True)


def test_an_intent_that_is_not_deployed_yet_is_judged_by_its_own_webhooks() -> None:
    settings = Settings.model_validate(LABELS)
    webhooks = asked.completed(deployed(Settings()), PolicySet.load(settings))
    assert webhooks.undeployed == ("required-labels",)
    assert webhooks.note.startswith("the cluster has no webhooks of required-labels: ")
    for namespace in ("payments", "free"):
        stored = workload("Deployment", {"template": TEMPLATE})
        stored["metadata"]["namespace"] = namespace
        judged = of(stored, settings, webhooks)
        assert (judged.finding, judged.asked) == (REFUSED, True)
        assert judged.message.startswith('deployment "web": label "team" is missing')
        today = of(stored, settings, deployed(Settings()))
        assert NOT_ASKED in (today.finding, today.message.rpartition("; ")[2].partition(":")[0])


def test_a_webhook_about_fairleads_own_objects_is_none_of_an_intent() -> None:
    present = deployed(Settings())
    other = calling(clientConfig={"service": {"path": "/objects"}}).configurations
    both = replace(present, configurations=(*present.configurations, *other))
    webhooks = asked.completed(both, PolicySet.load(Settings.model_validate(LABELS)))
    assert webhooks.undeployed == ("required-labels",)


def test_webhooks_of_a_cluster_that_has_all_are_as_they_are() -> None:
    policies = PolicySet.load(Settings.model_validate(LABELS))
    for webhooks in (deployed(policies.settings), asked.rendered(policies), calling()):
        assert asked.completed(webhooks, policies) == webhooks
        assert webhooks.undeployed == ()


def test_a_disabled_intent_is_the_reason_that_nobody_is_asked() -> None:
    judged = of(pod(), webhooks=calling(objectSelector=disabled_objects.off(None)))
    assert judged.reason == "node-pool is disabled: `fairlead enable` ends this"


POOLS = Settings(
    pools={
        "pool1": Pool(
            node_selector={"agentpool": "pool1", "disk": "ssd"},
            allowed_tolerations=[],
        ),
        "pool2": Pool(tolerations=[Toleration(key="gpu", operator="Exists")]),
    }
)
ADVICE = "an earlier pool placed it: "


@pytest.mark.parametrize("pod_selector", ["reject", "merge"])
@pytest.mark.parametrize(
    ("made_by", "remedy"),
    [
        (None, "delete it, and create it again"),
        (("Deployment", "web"), "delete the pod, or restart Deployment web"),
        (("Job", "once"), "delete the pod: Job once makes it again"),
    ],
)
def test_what_an_earlier_pool_gave_a_pod_is_not_blamed_on_its_author(
    made_by: tuple[str, str] | None, remedy: str, pod_selector: str
) -> None:
    settings = POOLS.model_copy(update={"pod_selector": pod_selector})
    gpu = {"key": "gpu", "operator": "Exists"}
    stored = pod(
        author={"schedulerName": "x"},
        nodeName="pool2-0",
        nodeSelector={"agentpool": "pool2"},
    )
    stored["spec"]["tolerations"] = [*TOLERATIONS, gpu]
    if made_by:
        stored = owned(stored, "v1", *made_by)
    runs = "runs on pool2-0, which is not labelled agentpool=pool1, disk=ssd; "
    judged = of(stored, settings)
    assert (judged.finding, judged.message) == (OUTSIDE, f"{runs}{ADVICE}{remedy}")
    del stored["spec"]["nodeName"]
    judged = of(stored, settings)
    assert judged.finding == CHANGED
    assert judged.message.endswith(f"; {ADVICE}{remedy}")


def test_what_a_pool_of_earlier_settings_gave_is_not_blamed_on_its_author() -> None:
    earlier = Settings(pools={"gpu": Pool(node_selector={"hardware": "gpu"})})
    stored = pod(author={"schedulerName": "x"}, nodeSelector={"hardware": "gpu"})
    (alone,), (known,) = (
        found([*inventory.of_pod(stored, Pools(Settings(), *more))], Settings())
        for more in ((), (earlier,))
    )
    assert (alone.finding, known.finding) == (REFUSED, CHANGED)
    assert f"{ADVICE}delete it" in known.message


def test_what_the_author_wrote_stays_his() -> None:
    stored = pod(author={"nodeSelector": {"agentpool": "pool2"}}, nodeName="pool2-0")
    judged = of(stored)
    assert judged.finding == OUTSIDE
    assert "would be refused: " in judged.message
    assert ADVICE not in judged.message


def test_a_pod_that_its_present_pool_placed_has_no_earlier_one() -> None:
    stored = pod(author={"schedulerName": "x"}, nodeSelector={"agentpool": "pool1"})
    assert of(stored).finding == PLACED
    stored["spec"]["nodeName"] = "bare"
    assert of(stored).message == "runs on bare, which is not labelled agentpool=pool1"


def test_the_template_of_a_workload_says_what_is_its_authors() -> None:
    settings = Settings(pod_selector="merge")
    stored = owned(
        pod(author={"nodeSelector": {"disk": "ssd", "agentpool": "pool2"}}),
        "apps/v1",
        "ReplicaSet",
        "web-1",
    )
    stored["metadata"]["ownerReferences"][0]["uid"] = "7"
    for selector, finding in (
        ({"disk": "ssd"}, CHANGED),
        ({"disk": "ssd", "agentpool": "pool2"}, REFUSED),
    ):
        template = {"spec": {"nodeSelector": selector}}
        workloads = {"7": inventory.Workload(template, ("Deployment", "web"))}
        (judged,) = found([*inventory.of_pod(stored, Pools(settings), workloads)], settings)
        assert judged.finding == finding
        assert (f"{ADVICE}delete the pod, or restart Deployment web" in judged.message) == (
            finding == CHANGED
        )


def test_the_path_of_a_patch_is_that_of_the_pod_or_of_the_workload() -> None:
    message = of(workload("Deployment", {"template": TEMPLATE})).message
    assert message == 'its pods: add /spec/nodeSelector {"agentpool": "pool1"}'
    message = of(workload("DaemonSet", {"template": TEMPLATE})).message
    assert message.startswith("add /spec/template/spec/nodeSelector")
    assert of(pod()).message == 'add /spec/nodeSelector {"agentpool": "pool1"}'


def test_an_undeclared_pool_has_no_nodes_to_be_outside_of() -> None:
    judged = of(pod(nodeName="pool2-0"), Settings(pools={"pool2": Pool()}))
    assert (judged.finding, judged.pool) == (REFUSED, "pool1")
    assert "not a declared pool" in judged.message


def test_all_labels_of_a_declared_pool_are_compared() -> None:
    settings = Settings(pools={"pool1": Pool(node_selector={"agentpool": "pool1", "disk": "ssd"})})
    judged = of(pod(nodeName="pool1-0"), settings)
    assert (judged.finding, judged.message) == (
        OUTSIDE,
        "runs on pool1-0, which is not labelled disk=ssd",
    )


def test_batches_keep_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "BATCH", 2)
    stored = [
        pod(),
        pod("free"),
        pod(author={"nodeName": "pool1-0"}),
        pod(nodeName="pool2-0"),
        pod("out"),
    ]
    subjects = [subject for each in stored for subject in inventory.of_pod(each)]
    assert [finding.finding for finding in found(subjects)] == [
        CHANGED,
        UNMAPPED,
        REFUSED,
        OUTSIDE,
        UNMAPPED,
    ]


def test_people_see_one_line_for_all_that_are_told_the_same() -> None:
    findings = [
        {
            "namespace": space,
            "kind": "Pod",
            "name": name,
            "node": node,
            "message": message,
            "finding": "f",
        }
        for space, name, node, message in (
            ("a", "one", "n1", "one runs on n1"),
            ("a", "two", "n2", "two runs on n2"),
            ("a", "three", None, "three waits"),
            ("a", "four", None, "four waits"),
            ("a", "five", None, "five waits"),
            ("a", "six", None, "six waits"),
            ("b", "one", "n1", "one runs on n1"),
        )
    ]
    lines = grouped.lines(findings, "finding")
    assert [(line["namespace"], line["objects"], line["message"]) for line in lines] == [
        ("a", "Pod one, Pod two", "one runs on n1"),
        ("a", "Pod three, Pod four, Pod five and 1 more", "three waits"),
        ("b", "Pod one", "one runs on n1"),
    ]
    assert grouped.counts({"bad": 0, "good": 2, "other": 1}, "pod") == "3 pods: 2 good, 1 other"
    assert grouped.counts({}, "pod") == "0 pods"
    assert grouped.counts({"good": 1}, "pod", " in 2 files") == "1 pod in 2 files: 1 good"

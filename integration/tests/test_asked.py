"""What Fairlead says OPA is asked about is what a real API server asks it about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from waits import until

from fairlead.admission import asked
from fairlead.cli.decisions.eval import command
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.kube import admission_reviews, clients
from fairlead.kube.clients import Objects
from fairlead.kube.errors import Refused
from fairlead.operations import decision_logs
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it reads the decision log of a single OPA")

Object = dict[str, Any]
Key = tuple[Any, ...]
GROUP = "admissionregistration.k8s.io/v1"
NOTE = {"fairlead.dev/assigned": '{"nodeSelector":{"agentpool":"pool1"},"tolerations":[]}'}
OWNER = {"apiVersion": "acme.io/v1", "kind": "Rollout", "name": "r", "uid": "1", "controller": True}
BY = "asked-by"


@dataclass(frozen=True)
class Row:
    """A request: how it is sent, and whether OPA is asked about it. It is `refused` without OPA, or
    `denied` by its answer.
    """

    what: str
    asked: bool
    manifest: Object
    operation: str = "CREATE"
    change: Object | None = None
    below: str | None = None
    refused: bool = False
    denied: bool = False


def of_kind(
    api_version: str, kind: str, name: str, namespace: str | None, spec: Any = None, **metadata: Any
) -> Object:
    place = {"namespace": namespace} if namespace else {}
    manifest: Object = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, **place, **metadata},
    }
    return manifest if spec is None else {**manifest, "spec": spec}


def pod(name: str, namespace: str, **spec: Any) -> Object:
    return of_kind("v1", "Pod", name, namespace, {"containers": [container()], **spec})


def container(**more: Any) -> Object:
    return {"name": "main", "image": "example.com/none", **more}


def workload(
    kind: str, name: str, namespace: str, *, note: bool = False, **metadata: Any
) -> Object:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels, **({"annotations": NOTE} if note else {})},
        "spec": {"containers": [container()]},
    }
    replicas = {} if kind == "DaemonSet" else {"replicas": 0}
    spec = {"selector": {"matchLabels": labels}, "template": template, **replicas}
    return of_kind("apps/v1", kind, name, namespace, spec, **metadata)


def scaler(version: str, name: str, namespace: str, by: str) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
    spec = {"scaleTargetRef": target, "maxReplicas": 2}
    return of_kind(
        f"autoscaling/{version}", "HorizontalPodAutoscaler", name, namespace, spec, labels={BY: by}
    )


def config(name: str, namespace: str, by: str) -> Object:
    return of_kind("v1", "ConfigMap", name, namespace, labels={BY: by})


@pytest.fixture
def further(objects: clients.Objects, namespace: Callable[..., str]) -> Iterator[None]:
    """Webhooks with all that those of Fairlead do not use, which ask the same OPA."""
    deployed = objects.get(GROUP, "ValidatingWebhookConfiguration", "fairlead")
    assert deployed is not None
    client = deployed["webhooks"][0]["clientConfig"]

    def webhook(by: str, resource: str, group: str = "", **more: Any) -> Object:
        return {
            "name": f"{by}.asked.example.com",
            "clientConfig": client,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [
                {
                    "apiGroups": [group],
                    "apiVersions": ["v1"],
                    "operations": ["*"],
                    "resources": [resource],
                }
            ],
            "objectSelector": {"matchLabels": {BY: by}},
            **more,
        }

    scalers = ("horizontalpodautoscalers", "autoscaling")
    fails = [{"name": "fails", "expression": "object.data.none == 'x'"}]
    by_user = [{"name": "by-user", "expression": "request.userInfo.username != 'nobody'"}]
    configuration = of_kind(
        GROUP,
        "ValidatingWebhookConfiguration",
        "asked",
        None,
        labels={"app.kubernetes.io/part-of": "fairlead"},
    )
    configuration["webhooks"] = [
        webhook("equivalent", *scalers, matchPolicy="Equivalent"),
        webhook("exact", *scalers, matchPolicy="Exact"),
        webhook("ignore", "configmaps", matchConditions=fails, failurePolicy="Ignore"),
        webhook("fail", "configmaps", matchConditions=fails, failurePolicy="Fail"),
        webhook("user", "configmaps", matchConditions=by_user),
        webhook("anything", "*/*", namespaceSelector={"matchLabels": {"pick": "me"}}),
        webhook("cluster", "namespaces", namespaceSelector={"matchLabels": {"pick": "me"}}),
        webhook("scale", "deployments/scale", "apps", objectSelector={}),
    ]
    objects.apply(configuration)
    try:
        probe = config("probe", namespace(), "fail")
        until(
            lambda: _refused(lambda: objects.apply(probe, dry_run=True)),
            what="the API server knows the new webhooks",
        )
        yield
    finally:
        objects.delete(GROUP, "ValidatingWebhookConfiguration", "asked")


def test_what_is_said_to_be_asked_is_asked(
    cluster: EmbeddedCluster, objects: clients.Objects, namespace: Callable[..., str], further: None
) -> None:
    mapped, free, out = namespace(agentpool="pool1"), namespace(), namespace(agentpool="")
    picked = namespace(pick="me")
    gate = {"schedulingGates": [{"name": "example.com/wait"}]}
    many = [{"name": f"V{number}", "value": "x"} for number in range(10_001)]
    large = pod("f", mapped, containers=[container(env=many)])
    daemon_set = workload("DaemonSet", "large", mapped)
    daemon_set["spec"]["template"]["spec"]["containers"] = [container(env=many)]
    gated = pod("e", mapped, **gate)
    ungated: Object = {"spec": {"schedulingGates": []}}
    labelled = {"metadata": {"labels": {"x": "y"}}}
    deployment = workload("Deployment", "h", mapped)
    owned = workload("Deployment", "i", mapped, ownerReferences=[OWNER])
    inherited = partial(workload, "DaemonSet", note=True)
    new_namespace = partial(of_kind, "v1", "Namespace", namespace=None)
    scale = of_kind("autoscaling/v1", "Scale", "h", mapped, {"replicas": 0})
    eviction = of_kind("policy/v1", "Eviction", "e", mapped)
    rows = [
        Row("a pod of a mapped namespace", True, pod("a", mapped)),
        Row("of one without a pool", False, pod("b", free)),
        Row("of one that opted out", False, pod("c", out)),
        Row("of an exempt one", False, pod("asked-d", "kube-system")),
        Row("a label of a pod", False, pod("a", mapped), "UPDATE", labelled),
        Row("a gated pod", True, gated),
        Row("the end of a gate", True, gated, "UPDATE", ungated),
        Row("a pod that is deleted", False, pod("a", mapped), "DELETE"),
        Row("a pod that is too large", True, large, denied=True),
        Row("a daemon set that is too large", True, daemon_set, denied=True),
        Row("an object without a webhook", False, config("g", mapped, "nobody")),
        Row("a deployment", True, deployment),
        Row("its labels", False, deployment, "UPDATE", labelled),
        Row("one of a controller", True, owned),
        Row("one of another namespace", False, workload("Deployment", "j", free)),
        Row("a daemon set", True, workload("DaemonSet", "k", mapped)),
        Row("one where no pool is", False, workload("DaemonSet", "l", free)),
        Row("one with an old pool", True, inherited("m", free)),
        Row("one with an old pool that opted out", True, inherited("n", out)),
        Row("one in an exempt namespace", False, inherited("asked-o", "kube-system")),
        Row("an equivalent version", True, scaler("v2", "p", free, "equivalent")),
        Row("the same version", True, scaler("v1", "q", free, "equivalent")),
        Row("exactly the version", True, scaler("v1", "r", free, "exact")),
        Row("another version", False, scaler("v2", "s", free, "exact")),
        Row("a condition that fails, ignored", False, config("t", free, "ignore")),
        Row("a condition that fails", False, config("u", free, "fail"), refused=True),
        Row("a condition on the user", True, config("v", free, "user")),
        Row("any resource there", True, config("w", picked, "anything")),
        Row("and not elsewhere", False, config("x", free, "anything")),
        Row(
            "a namespace by its own labels",
            True,
            new_namespace("asked-y", labels={BY: "cluster", "pick": "me"}),
        ),
        Row("one without them", False, new_namespace("asked-z", labels={BY: "cluster"})),
        Row("a subresource", True, scale, "UPDATE", below="deployments/scale"),
        Row("an eviction", False, eviction, below="pods/eviction"),
    ]
    assert len({row.what for row in rows}) == len(rows)
    rest = Objects(cluster.kubeconfig)
    reviews = [_sent(objects, rest, row) for row in rows]
    marker = pod("marker", mapped)
    _sent(objects, rest, Row("the last", True, marker))

    expected = {_key(review) for row, review in zip(rows, reviews, strict=True) if row.asked}
    expected.add(_key(admission_reviews.build(marker)))

    def all_seen() -> set[Key] | None:
        seen = _seen(cluster)
        return seen if expected <= seen else None

    # OPA sends its log in batches. Any other request would have been logged before the last ones.
    seen = until(all_seen, what="OPA logs all requests that it should get")
    settings = Settings()
    said = asked.ask(
        asked.of_cluster(cluster, PolicySet.load(settings)),
        reviews,
        cluster.objects().namespaces(),
        complete=True,
        progress=Progress(),
    )
    told = {row.what: each for row, each in zip(rows, said, strict=True)}
    by_words = {what: each.asked for what, each in told.items()}
    assert by_words == {
        row.what: _key(review) in seen for row, review in zip(rows, reviews, strict=True)
    }
    assert by_words == {row.what: row.asked for row in rows}
    assert {what for what, each in told.items() if each.refused} == {
        row.what for row in rows if row.refused
    }
    assert told["of an exempt one"].reason.startswith('namespace "kube-system" is exempt; ')
    assert told["a label of a pod"].reason == "matchCondition placement-changes is false"


def test_eval_follows_the_webhooks_of_the_cluster(
    cluster: EmbeddedCluster, further: None, namespace: Callable[..., str], tmp_path: Path
) -> None:
    path = tmp_path / "sent.json"
    items = [config("a", namespace(), "user"), pod("b", "kube-system", nodeName="n")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    arguments = [str(path), "--live", "--name", cluster.name, "-o", "json"]
    output = CliRunner().invoke(command, arguments, catch_exceptions=False).stdout
    by_user, exempt = json.loads(output)
    assert (by_user["asked"], by_user["allowed"], by_user["reason"]) == (True, True, "")
    assert (exempt["asked"], exempt["allowed"]) == (False, True)
    assert exempt["reason"].startswith('namespace "kube-system" is exempt; ')


def _sent(objects: clients.Objects, rest: Objects, row: Row) -> Object:
    """Send the request, and return the review that describes it."""
    manifest, place = row.manifest, row.manifest["metadata"]
    key = (manifest["apiVersion"], manifest["kind"], place["name"], place.get("namespace"))
    old = None
    if row.below:
        resource, _, subresource = row.below.partition("/")
        group = "apps" if resource == "deployments" else ""
        root = f"/apis/{group}/v1" if group else "/api/v1"
        path = f"{root}/namespaces/{place['namespace']}/{row.below}".replace(
            resource, f"{resource}/{place['name']}", 1
        )
        assert rest.request("POST" if row.operation == "CREATE" else "PUT", path, manifest).ok
        review = admission_reviews.build(
            manifest, operation=row.operation, sub_resource=subresource
        )
        parent = {"group": group, "version": "v1", "resource": resource}
        review["request"] |= {"resource": parent, "requestResource": parent}
        return review
    if row.operation != "CREATE":
        old = objects.get(*key)
        assert old is not None
    if row.operation == "DELETE":
        objects.delete(*key, grace=0)
        return admission_reviews.build(old or {}, operation="DELETE")
    if row.change:
        objects.merge(manifest, row.change)
        manifest = objects.get(*key) or {}
        return admission_reviews.build(manifest, operation="UPDATE", old=old)
    assert _refused(lambda: objects.create(manifest)) == (row.refused or row.denied)
    return admission_reviews.build(manifest)


def _refused(send: Callable[[], Any]) -> bool:
    try:
        send()
    except Refused:
        return True
    return False


def _seen(cluster: EmbeddedCluster) -> set[Key]:
    """The requests that OPA got."""
    try:
        entries = decision_logs.decisions(cluster, decision_logs.Selection())
    except FairleadError:  # none yet
        return set()
    return {_key(entry.get("input") or {}) for entry in entries}


def _key(review: Object) -> Key:
    request = review.get("request") or {}
    kind = (request.get("kind") or {}).get("kind")
    fields = ("operation", "namespace", "name", "subResource")
    return (kind, *(request.get(field) for field in fields))

"""Objects that were created before their namespace's pool changed: DaemonSets follow when they are
applied again, and gated pods are placed before they run."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client
from waits import until

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError
from fairlead.kube import api_requests, clients
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.kube.errors import Refused
from fairlead.kube.responses import Response

Make = Callable[..., Any]
Apply = Callable[[dict[str, Any]], dict[str, Any]]
NOTE = "fairlead.dev/assigned"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
GATES = [{"name": "acme.io/quota"}]
_numbers = itertools.count()


@pytest.fixture
def apps(cluster: Cluster) -> client.AppsV1Api:
    return client.AppsV1Api(clients.connect(cluster.kubeconfig))


@pytest.fixture(autouse=True)
def nothing_rolls_out_afterwards(objects: clients.Objects) -> Iterator[None]:
    """Wait until no rollout is left, because other tests count the calls of webhooks."""
    yield
    for daemon_set in objects.list("apps/v1", "DaemonSet", None):
        if daemon_set["metadata"]["name"] == "agent":
            objects.delete("apps/v1", "DaemonSet", "agent", daemon_set["metadata"]["namespace"])
    until(lambda: not objects.list("v1", "Pod", None, "app=agent"), what="no pod of them is left")


@pytest.fixture(params=["server-side", "client-side"])
def apply(request: pytest.FixtureRequest, apps: client.AppsV1Api) -> Apply:
    """`kubectl apply` of a DaemonSet, with and without --server-side."""

    def server_side(manifest: dict[str, Any]) -> dict[str, Any]:
        named = (manifest["metadata"]["name"], manifest["metadata"]["namespace"])
        kind = "application/apply-patch+yaml"
        return stored(
            apps.patch_namespaced_daemon_set(
                *named,
                manifest,
                field_manager="kubectl",
                force=True,
                _content_type=kind,
                _preload_content=False,
            )
        )

    def client_side(manifest: dict[str, Any]) -> dict[str, Any]:
        name, at = (manifest["metadata"][key] for key in ("name", "namespace"))
        metadata = {**manifest["metadata"], "annotations": {LAST_APPLIED: json.dumps(manifest)}}
        sent: Any = {**manifest, "metadata": metadata}
        try:
            return stored(apps.create_namespaced_daemon_set(at, sent, _preload_content=False))
        except client.ApiException as error:
            if error.status != 409:
                raise
        kind = "application/strategic-merge-patch+json"
        return stored(
            apps.patch_namespaced_daemon_set(
                name, at, sent, _content_type=kind, _preload_content=False
            )
        )

    kubectl = server_side if request.param == "server-side" else client_side
    return functools.partial(once_known, kubectl)


def once_known(change: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """The object as `change` stores it. Raises FairleadError, after which `until` asks again, if
    the policy does not know the namespace's new label yet.
    """
    try:
        return change(*arguments)
    except client.ApiException as error:
        if "retry in a moment" in str(error.body):
            raise FairleadError(str(error.body)) from error
        raise


def stored(answer: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(answer.data)
    return document


def agent(pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A DaemonSet with a different template in each call."""
    labels = {"app": "agent"}
    template = {
        "metadata": {"labels": labels},
        "spec": {**pod["spec"], **spec, "hostAliases": alias()},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": pod["metadata"]["namespace"]},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def alias() -> list[dict[str, Any]]:
    return [{"ip": "127.0.0.1", "hostnames": [f"change-{next(_numbers)}"]}]


def template_of(daemon_set: dict[str, Any]) -> tuple[dict[str, str] | None, dict[str, Any] | None]:
    """The nodeSelector of the template, and its note of the assignment."""
    template = daemon_set["spec"]["template"]
    note = (template["metadata"].get("annotations") or {}).get(NOTE)
    return template["spec"].get("nodeSelector"), note and json.loads(note)


def given(pool: str) -> tuple[dict[str, str], dict[str, Any]]:
    return {"agentpool": pool}, {"nodeSelector": {"agentpool": pool}, "tolerations": []}


def relabel(objects: clients.Objects, namespace: str, pool: str | None) -> None:
    labels = {} if pool is None else {"agentpool": pool}
    objects.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
    )


def wait_until_mapped(objects: clients.Objects, pod: dict[str, Any], pool: str) -> None:
    """Wait until the new label has reached the API server's own cache and OPA."""

    def placed() -> bool:
        probe = objects.apply(
            {**pod, "metadata": {**pod["metadata"], "name": "probe"}}, dry_run=True
        )
        return bool(probe["spec"].get("nodeSelector") == {"agentpool": pool})

    until(placed, what=f"namespace {pod['metadata']['namespace']} is known with {pool}")


def nodes_of_pods(objects: clients.Objects, namespace: str) -> set[str | None]:
    pods = objects.list("v1", "Pod", namespace)
    return {
        pod["spec"].get("nodeName") for pod in pods if not pod["metadata"].get("deletionTimestamp")
    }


def test_a_daemon_set_applied_again_follows_its_namespace_to_another_pool(
    objects: clients.Objects, namespace: Make, pod: Make, apply: Apply
) -> None:
    at = namespace(agentpool="pool1")
    assert template_of(apply(agent(pod(at)))) == given("pool1")
    relabel(objects, at, "pool2")
    until(
        lambda: template_of(apply(agent(pod(at)))) == given("pool2"), what="the template has pool2"
    )
    pool2 = {
        node["metadata"]["name"] for node in objects.list("v1", "Node", None, "agentpool=pool2")
    }
    until(lambda: nodes_of_pods(objects, at) == pool2, what="its pods run in pool2 alone")


def test_until_then_a_refused_pod_names_the_restart_that_does_it(
    objects: clients.Objects, namespace: Make, pod: Make, apps: client.AppsV1Api
) -> None:
    at = namespace(agentpool="pool1")
    objects.create(agent(pod(at)))
    (old,) = until(lambda: objects.list("v1", "Pod", at) or None, what="it has its pod")
    relabel(objects, at, "pool2")
    wait_until_mapped(objects, pod(at), "pool2")
    objects.delete("v1", "Pod", old["metadata"]["name"], at)

    def event_names_it() -> bool:
        messages = [event.get("message", "") for event in objects.list("v1", "Event", at)]
        return any(
            f"kubectl -n {at} rollout restart daemonset agent" in message for message in messages
        )

    until(event_names_it, what="an Event names the way out")
    body = {
        "spec": {
            "template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}
        }
    }
    kind = "application/strategic-merge-patch+json"
    restarted = apps.patch_namespaced_daemon_set(
        "agent", at, body, _content_type=kind, _preload_content=False
    )
    assert template_of(stored(restarted)) == given("pool2")


@pytest.mark.parametrize("left", [None, ""], ids=["unlabelled", "opted out"])
def test_a_daemon_set_applied_again_loses_what_a_pool_gave_when_there_is_none_any_more(
    objects: clients.Objects, namespace: Make, pod: Make, apply: Apply, left: str | None
) -> None:
    at = namespace(agentpool="pool1")
    assert template_of(apply(agent(pod(at)))) == given("pool1")
    relabel(objects, at, left)
    until(
        lambda: template_of(apply(agent(pod(at)))) == (None, None), what="the template has no pool"
    )


def test_a_rollback_brings_no_earlier_pool_back(
    objects: clients.Objects, namespace: Make, pod: Make, apps: client.AppsV1Api
) -> None:
    """Works like `kubectl rollout undo`, which replaces the template by that of an earlier
    revision.
    """
    at = namespace(agentpool="pool1")
    earlier = objects.create(agent(pod(at)))["spec"]["template"]
    relabel(objects, at, "pool2")
    wait_until_mapped(objects, pod(at), "pool2")

    def undone() -> dict[str, Any]:
        body = {"spec": {"template": {**earlier, "$patch": "replace"}}}
        kind = "application/strategic-merge-patch+json"
        return stored(
            apps.patch_namespaced_daemon_set(
                "agent", at, body, _content_type=kind, _preload_content=False
            )
        )

    assert template_of(objects.apply(agent(pod(at)))) == given("pool2")
    assert template_of(undone()) == given("pool2")
    relabel(objects, at, None)
    until(lambda: template_of(once_known(undone)) == (None, None), what="the template has no pool")


def test_a_nodeselector_of_the_manifest_stays_and_a_warning_says_what_to_do(
    objects: clients.Objects, namespace: Make, pod: Make, cluster: Cluster
) -> None:
    at = namespace(agentpool="pool1")
    objects.apply(agent(pod(at), nodeSelector={"agentpool": "pool1"}))
    relabel(objects, at, "pool2")
    wait_until_mapped(objects, pod(at), "pool2")
    rest = Objects(cluster.kubeconfig)
    path = path_of({"apiVersion": "apps/v1", "kind": "DaemonSet"}, at, "agent")

    def changed() -> Response | None:
        live = rest.request("GET", path).body
        live["spec"]["template"]["spec"]["hostAliases"] = alias()
        answer = rest.request("PUT", path, live)
        return None if answer.status == 409 else answer

    answer = until(changed, what="the DaemonSet is changed without a conflict")
    assert template_of(answer.body) == ({"agentpool": "pool1"}, None)
    (warning,) = answer.warnings
    assert f'namespace "{at}" places its pods in pool "pool2"' in warning
    way_out = f"kubectl -n {at} patch daemonset agent --type json -p '"
    assert way_out in warning
    operations = json.loads(warning.partition(way_out)[2].removesuffix("'"))

    kind = "application/json-patch+json"
    apps = client.AppsV1Api(clients.connect(cluster.kubeconfig))
    done = apps.patch_namespaced_daemon_set(
        "agent", at, operations, _content_type=kind, _preload_content=False
    )
    assert template_of(stored(done)) == given("pool2")


def test_without_a_pool_opa_is_asked_only_about_what_a_pool_gave_to_a_daemon_set(
    objects: clients.Objects, namespace: Make, pod: Make, cluster: Cluster
) -> None:
    def withdrawn(at: str) -> bool:
        noted = agent(pod(at), nodeSelector={"agentpool": "pool1"})
        noted["spec"]["template"]["metadata"]["annotations"] = {NOTE: json.dumps(given("pool1")[1])}
        return template_of(objects.apply(noted)) == (None, None)

    for labels in ({}, {"agentpool": ""}):
        at = namespace(**labels)
        before = calls(cluster)
        objects.apply(agent(pod(at)))
        objects.apply(agent(pod(at)))
        assert calls(cluster) == before
        # at once, or when an answer comes within the second that it has
        what = "the assignment is withdrawn"
        until(functools.partial(withdrawn, at), what=what)
        assert calls(cluster) > before


def calls(cluster: Cluster) -> int:
    """How often the API server has called the webhooks for DaemonSets."""
    api = clients.connect(cluster.kubeconfig)
    answer = api.call_api(
        "GET", f"{api.configuration.host}/metrics", header_params={"Accept": "text/plain"}
    )
    lines = answer.read().decode().splitlines()
    counts = [
        line for line in lines if line.startswith("apiserver_admission_webhook_request_total{")
    ]
    return sum(
        int(float(line.rpartition(" ")[2]))
        for line in counts
        if "daemonsets.node-pool.fairlead.dev" in line
    )


def gated(pod: Make, namespace: str, **spec: Any) -> dict[str, Any]:
    return dict(pod(namespace, schedulingGates=GATES, **spec))


@pytest.fixture
def freed(cluster: Cluster) -> Callable[[str], dict[str, Any]]:
    """Removes all gates of the pod `web` in a namespace. Raises Refused if that is refused."""
    core = client.CoreV1Api(clients.connect(cluster.kubeconfig))

    def take(namespace: str) -> dict[str, Any]:
        with api_requests.explained("cannot take the gates of pod web"):
            kind = "application/merge-patch+json"
            body = {"spec": {"schedulingGates": None}}
            return stored(
                core.patch_namespaced_pod(
                    "web", namespace, body, _content_type=kind, _preload_content=False
                )
            )

    return take


def test_a_pod_gated_before_its_namespace_was_mapped_is_placed_when_its_last_gate_goes(
    objects: clients.Objects, namespace: Make, pod: Make, freed: Callable[[str], dict[str, Any]]
) -> None:
    at = namespace()
    assert "nodeSelector" not in objects.create(gated(pod, at))["spec"]
    relabel(objects, at, "pool2")
    wait_until_mapped(objects, pod(at), "pool2")
    assert freed(at)["spec"]["nodeSelector"] == {"agentpool": "pool2"}

    def node() -> str:
        pod = objects.get("v1", "Pod", "web", at) or {}
        if not pod["spec"].get("nodeName"):
            raise FairleadError(f"{pod['status']}")
        return str(pod["spec"]["nodeName"])

    on = until(node, what="the pod is scheduled")
    assert (objects.get("v1", "Node", on) or {})["metadata"]["labels"]["agentpool"] == "pool2"


def test_a_pod_gated_before_its_namespace_was_mapped_that_fits_no_pool_stays_gated(
    objects: clients.Objects, namespace: Make, pod: Make, freed: Callable[[str], dict[str, Any]]
) -> None:
    at = namespace()
    objects.create(gated(pod, at, nodeSelector={"disk": "ssd"}))
    relabel(objects, at, "pool2")
    wait_until_mapped(objects, pod(at), "pool2")
    with pytest.raises(
        Refused, match=f'namespace "{at}" places its pods in pool "pool2"'
    ) as refused:
        freed(at)
    assert refused.value.status == 403
    assert (objects.get("v1", "Pod", "web", at) or {})["spec"]["schedulingGates"] == GATES


def test_a_gated_pod_that_an_earlier_label_placed_is_left_where_it_is(
    objects: clients.Objects, namespace: Make, pod: Make, freed: Callable[[str], dict[str, Any]]
) -> None:
    at = namespace(agentpool="pool1")
    objects.create(gated(pod, at))
    relabel(objects, at, "pool2")
    wait_until_mapped(objects, pod(at), "pool2")
    assert freed(at)["spec"]["nodeSelector"] == {"agentpool": "pool1"}

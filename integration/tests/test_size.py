"""OPA refuses objects that are too large for it, and never reads them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import memory
import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.deployment import review_limits
from fairlead.kube import clients
from fairlead.opa import containers as deployed
from fairlead.operations.deploy import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["processes"]

MOST_VALUES, MOST_PARTS = review_limits.SIZES["mostValues"], review_limits.SIZES["mostParts"]
UNDER = MOST_VALUES - 200
"""The number of entries that fit beside the other values of a small pod, such as the fields that
the API server records for its manager."""


@pytest.fixture
def api(cluster: Cluster) -> client.ApiClient:
    return clients.connect(cluster.kubeconfig)


def post(api: client.ApiClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The API server's answer to a dry run. Raises ApiException if it is refused."""
    parameters = api.param_serialize(
        "POST",
        path,
        query_params=[("dryRun", "All")],
        header_params={"Content-Type": "application/json", "Accept": "application/json"},
        body=body,
    )
    answer = api.call_api(*parameters, _request_timeout=60)
    document: dict[str, Any] = json.loads(answer.read())
    if not 200 <= answer.status < 300:
        raise ApiException(status=answer.status, reason=json.dumps(document))
    return document


def with_env(manifest: dict[str, Any], count: int) -> dict[str, Any]:
    container = {**manifest["spec"]["containers"][0], "env": [{"name": "a"}] * count}
    return {**manifest, "spec": {**manifest["spec"], "containers": [container]}}


def owned(manifest: dict[str, Any], count: int) -> dict[str, Any]:
    """The manifest with a field manager that owns so many fields."""
    fields: dict[str, Any] = {
        "f:metadata": {"f:labels": {f"f:l{number}": {} for number in range(count)}}
    }
    manager = {
        "manager": "m",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    metadata = {
        **manifest["metadata"],
        "managedFields": [{**manager, "time": "2026-01-01T00:00:00Z"}],
    }
    return {**manifest, "metadata": metadata}


def test_a_pod_is_placed_up_to_the_limit_and_refused_above(
    api: client.ApiClient, namespace: Callable[..., str], pod: Callable[..., dict[str, Any]]
) -> None:
    mapped = namespace(agentpool="pool1")
    pods = f"/api/v1/namespaces/{mapped}/pods"
    assert post(api, pods, with_env(pod(mapped), UNDER))["spec"]["nodeSelector"] == {
        "agentpool": "pool1"
    }
    for large in (
        with_env(pod(mapped), MOST_VALUES + 1),
        with_env(pod(mapped), 100_000),
        owned(pod(mapped), MOST_VALUES),
        pod(
            mapped,
            volumes=[{"name": f"v{number}", "emptyDir": {}} for number in range(MOST_PARTS)],
        ),
        pod(mapped, tolerations=[{"key": str(number)} for number in range(MOST_VALUES)]),
        pod(mapped, hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a"] * MOST_VALUES}]),
    ):
        with pytest.raises(ApiException) as refused:
            post(api, pods, large)
        assert refused.value.status == 403
        assert "it has more than 10000 entries in its lists and maps" in str(refused.value.reason)


def test_the_same_holds_for_a_daemon_set_and_a_workload_is_admitted_unwarned(
    api: client.ApiClient, namespace: Callable[..., str], pod: Callable[..., dict[str, Any]]
) -> None:
    mapped = namespace(agentpool="pool1")

    def workload(kind: str, count: int) -> dict[str, Any]:
        spec = with_env(pod(mapped, nodeName="node"), count)["spec"]
        if kind == "DaemonSet":
            del spec["nodeName"]
        template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
        }

    path = f"/apis/apps/v1/namespaces/{mapped}/"
    placed = post(api, path + "daemonsets", workload("DaemonSet", UNDER))
    assert placed["spec"]["template"]["spec"]["nodeSelector"] == {"agentpool": "pool1"}
    with pytest.raises(ApiException) as refused:
        post(api, path + "daemonsets", workload("DaemonSet", MOST_VALUES + 1))
    assert refused.value.status == 403
    assert (
        post(api, path + "deployments", workload("Deployment", MOST_VALUES + 1))["kind"]
        == "Deployment"
    )


@pytest.mark.parametrize(
    ("path", "kind", "spec", "words"),
    [
        ("api/v1", "Pod", {}, "spec.containers: Required value"),
        (
            "api/v1",
            "Pod",
            {
                "containers": [{"name": "c", "image": "nginx"}],
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}
                },
            },
            "nodeSelectorTerms: Required value",
        ),
        ("apis/apps/v1", "Deployment", {}, "spec.selector: Required value"),
        ("apis/apps/v1", "DaemonSet", {}, "spec.template.spec.containers: Required value"),
        ("apis/batch/v1", "Job", {"podFailurePolicy": {}}, "spec.template.spec.restartPolicy"),
        ("api/v1", "ReplicationController", {}, "spec.template: Required value"),
    ],
)
def test_an_incomplete_object_is_refused_by_the_words_of_the_api_server(
    api: client.ApiClient,
    namespace: Callable[..., str],
    path: str,
    kind: str,
    spec: dict[str, Any],
    words: str,
) -> None:
    mapped = namespace(agentpool="pool1")
    version = path.partition("/")[2]
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    with pytest.raises(ApiException) as refused:
        post(api, f"/{path}/namespaces/{mapped}/{kind.lower()}s", manifest)
    assert words in str(refused.value.reason)
    assert "expression" not in str(refused.value.reason)


def test_a_pod_elsewhere_may_be_as_large_as_the_cluster_allows(
    api: client.ApiClient, namespace: Callable[..., str], pod: Callable[..., dict[str, Any]]
) -> None:
    elsewhere = namespace()
    assert post(
        api,
        f"/api/v1/namespaces/{elsewhere}/pods",
        with_env(pod(elsewhere), MOST_VALUES + 1),
    )


@pytest.fixture
def deployed_with(cluster: Cluster, settings: Settings) -> Iterator[Callable[..., None]]:
    """Deploys with other settings during the test."""

    def deployed(**changes: Any) -> None:
        deploy(cluster, PolicySet.load(settings.model_copy(update=changes)), progress=Progress())

    yield deployed
    deployed()


WARN = {"enforcement": {"node-pool": "warn"}}
IGNORE = {"failure_policy": "Ignore"}


@pytest.mark.parametrize(
    ("changes", "admitted"),
    [
        ({}, []),
        (WARN, ["counted", "owned"]),
        (IGNORE, ["unread"]),
        (WARN | IGNORE, ["counted", "owned", "unread"]),
    ],
    ids=["neither", "warn", "Ignore", "both"],
)
def test_enforcement_and_failure_policy_say_what_becomes_of_what_is_too_large(
    deployed_with: Callable[..., None],
    api: client.ApiClient,
    namespace: Callable[..., str],
    pod: Callable[..., dict[str, Any]],
    changes: dict[str, Any],
    admitted: list[str],
) -> None:
    """The outcomes of the table in docs/node-pool.md; admitted pods are unplaced."""
    if changes:
        deployed_with(**changes)
    mapped = namespace(agentpool="pool1")
    main = pod(mapped)["spec"]["containers"][0]
    large = {
        "counted": with_env(pod(mapped), MOST_VALUES + 1),
        "owned": owned(pod(mapped), 100_000),
        # 0.7 MB, of which a review is 4.2 MB, as each `<` takes six bytes there.
        "unread": pod(mapped, containers=[{**main, "args": ["<" * 700_000]}]),
    }
    for name, manifest in large.items():
        if name in admitted:
            assert (
                "nodeSelector"
                not in post(api, f"/api/v1/namespaces/{mapped}/pods", manifest)["spec"]
            )
        else:
            with pytest.raises(ApiException):
                post(api, f"/api/v1/namespaces/{mapped}/pods", manifest)


@pytest.fixture
def tenant(
    objects: clients.Objects, cluster: Cluster, namespace: Callable[..., str]
) -> tuple[str, client.ApiClient]:
    """A mapped namespace, and a client of a user who has only the role `edit` there."""
    mapped = namespace(agentpool="pool1")
    rbac = "rbac.authorization.k8s.io"
    objects.apply(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "edit", "namespace": mapped},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "mallory"}],
        }
    )
    impersonated = clients.connect(cluster.kubeconfig)
    impersonated.set_default_header("Impersonate-User", "mallory")
    return mapped, impersonated


def test_a_tenant_has_the_rights_of_edit_in_one_namespace_alone(
    tenant: tuple[str, client.ApiClient],
    namespace: Callable[..., str],
    pod: Callable[..., dict[str, Any]],
) -> None:
    """`edit` is a role that the API server creates. Without it, the flood below would be refused
    for a different reason.
    """
    mapped, mallory = tenant
    bound, other = client.CoreV1Api(mallory), namespace(agentpool="pool1")
    assert post(mallory, f"/api/v1/namespaces/{mapped}/pods", pod(mapped))["spec"]["nodeSelector"]
    assert post(
        mallory,
        f"/apis/apps/v1/namespaces/{mapped}/deployments/",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod(mapped)["spec"]},
            },
        },
    )
    assert bound.list_namespaced_secret(mapped).items is not None
    for refused in (
        lambda: post(mallory, f"/api/v1/namespaces/{other}/pods", pod(other)),
        lambda: bound.list_node(),
        lambda: client.RbacAuthorizationV1Api(mallory).list_namespaced_role_binding(mapped),
    ):
        with pytest.raises(ApiException) as error:
            refused()
        assert error.value.status == 403


@pytest.mark.embedded("it measures OPA's process")
def test_a_tenant_with_huge_pods_delays_nobody_elses_and_fits_opas_memory(
    tenant: tuple[str, client.ApiClient],
    api: client.ApiClient,
    cluster: Cluster,
    namespace: Callable[..., str],
    pod: Callable[..., dict[str, Any]],
) -> None:
    mapped, mallory = tenant
    bystander = namespace(agentpool="pool2")
    before = cluster.opas()
    huge = [with_env(pod(mapped), 100_000), with_env(pod(mapped), UNDER), pod(mapped)]
    huge[2]["spec"] = {
        **huge[2]["spec"],
        "containers": [{**huge[2]["spec"]["containers"][0], "args": ["x" * 2_900_000]}],
    }
    ended = threading.Event()
    answers: list[int] = []

    def flood(number: int) -> None:
        while not ended.is_set():
            try:
                post(mallory, f"/api/v1/namespaces/{mapped}/pods", huge[number % len(huge)])
                answers.append(201)
            except ApiException as error:
                answers.append(int(error.status or 0))

    threads = [threading.Thread(target=flood, args=(number,), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    try:
        until = time.monotonic() + 15
        placed = 0
        while time.monotonic() < until:
            answer = post(api, f"/api/v1/namespaces/{bystander}/pods", pod(bystander))
            assert answer["spec"]["nodeSelector"] == {"agentpool": "pool2"}
            placed += 1
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)
    assert placed
    assert set(answers) == {201, 403}
    assert cluster.opas() == before, "OPA was restarted"
    assert (
        max(memory.peak(server.pid) for server in cluster.opas() if server.pid)
        < deployed.OPA_MEMORY
    )


COUNTED = (
    ("api/v1", "io.k8s.api.core.v1.Pod", "pods"),
    ("apis/apps/v1", "io.k8s.api.apps.v1.DaemonSet", "daemonsets"),
    ("apis/apps/v1", "io.k8s.api.apps.v1.Deployment", "workloads"),
    ("apis/apps/v1", "io.k8s.api.apps.v1.ReplicaSet", "workloads"),
    ("apis/apps/v1", "io.k8s.api.apps.v1.StatefulSet", "workloads"),
    ("apis/batch/v1", "io.k8s.api.batch.v1.Job", "workloads"),
    ("apis/batch/v1", "io.k8s.api.batch.v1.CronJob", "workloads"),
    ("api/v1", "io.k8s.api.core.v1.ReplicationController", "workloads"),
    ("api/v1", "io.k8s.api.core.v1.Namespace", "namespaces"),
)


def listed(shape: Any, at: str = "") -> Iterator[str]:
    """The paths of all lists and maps of a shape of fairlead.deployment.review_limits."""
    if isinstance(shape, list):
        yield at
        yield from listed(shape[0], at)
    elif isinstance(shape, dict):
        for field, below in shape.items():
            yield from listed(below, f"{at}.{field}" if field else at)
    else:
        yield at


def published(schemas: dict[str, Any], schema: dict[str, Any], at: str = "") -> Iterator[str]:
    """The paths of all lists and maps of a schema."""
    schema = schema["allOf"][0] if "allOf" in schema else schema
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    below = schema.get("items") or schema.get("additionalProperties")
    if below or (schema.get("type") == "object" and "properties" not in schema):
        yield at
        yield from published(schemas, below or {}, at)
    for field, inner in schema.get("properties", {}).items():
        yield from published(schemas, inner, f"{at}.{field}")


@pytest.mark.parametrize(
    ("group", "name", "members"), COUNTED, ids=[name.rpartition(".")[2] for _, name, _ in COUNTED]
)
def test_every_list_and_map_that_the_api_server_knows_is_counted(
    api: client.ApiClient, group: str, name: str, members: str
) -> None:
    answer = api.call_api(*api.param_serialize("GET", f"/openapi/v3/{group}"))
    schemas = json.loads(answer.read())["components"]["schemas"]
    shapes = review_limits.SIZES["groups"][members]
    counted = set(listed(shapes["beside"]))
    for path in shapes["templates"]:
        counted |= set(
            listed(review_limits.SIZES["template"], "".join(f".{part}" for part in path))
        )
    assert sorted(set(published(schemas, schemas[name])) - counted) == []

"""A deployed OPA says on which clusters a workload may run, by data of a ConfigMap."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from applied import applied, namespace_manifest
from profiles import EVERYTHING
from waits import until

from fairlead.clusters.base import Cluster
from fairlead.common import paths
from fairlead.common.digests import digest
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE, POLICIES
from fairlead.opa.api import OpaApi
from fairlead.operations import deploy, deployed_state, policy_status, push, rotate
from fairlead.policy.policy_set import PolicySet

PROFILES = ["everything"]
pytestmark = pytest.mark.embedded("it has other settings")

WITHOUT = EVERYTHING.model_copy(update={"placement": False})
SCENARIO = yaml.safe_load((paths.root() / "testdata" / "placement" / "data.yaml").read_text())
PATH = "/v1/data/k8s/placement"


def bring(cluster: Cluster, placement: dict[str, Any]) -> None:
    """Bring OPA's data by the ConfigMap."""
    labels = {"openpolicyagent.org/data": "opa"}
    cluster.objects().apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "placement", "namespace": NAMESPACE, "labels": labels},
            "data": {key: json.dumps(part) for key, part in placement.items()},
        }
    )


@pytest.fixture(scope="module")
def wanting(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster whose OPA answers about placement, with the data of the scenario."""
    objects = cluster.objects()
    bring(cluster, SCENARIO["placement"])
    with applied(objects, [namespace_manifest("shop", customer="medicare-plus")]):
        yield cluster
    objects.delete("v1", "ConfigMap", "placement", NAMESPACE)
    deploy.deploy(cluster, PolicySet.load(EVERYTHING), progress=Progress())


@pytest.fixture
def api(wanting: Cluster) -> Iterator[OpaApi]:
    """A client of its OPA's API with the token of the moment."""
    credentials = deployed_state.credentials(wanting.objects())
    assert credentials is not None
    server, *_ = wanting.opas()
    client = OpaApi(server.url, ca=server.ca, token=credentials.token)
    yield client
    client.close()


def asked(api: OpaApi, resource: Any) -> dict[str, Any]:
    """OPA's answer about a workload."""
    response = api.session.post(api.url + PATH, json={"input": {"resource": resource}})
    assert response.status_code == 200
    result: dict[str, Any] = response.json().get("result", {})
    return result


def clusters(answer: dict[str, Any]) -> set[str]:
    """The names of the clusters of an answer."""
    annotations = answer.get("annotations", {})
    return set(annotations.get("replica-set-preferences", {}).get("clusters", {}))


def test_it_decides_by_the_config_map_and_the_labels_of_the_namespace(api: OpaApi) -> None:
    web = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    until(lambda: clusters(asked(api, web)) == {"us-dallas"}, what="OPA has the data")
    assert asked(api, web)["errors"] == {}
    assert len(asked(api, web)["explanation"]) == len(SCENARIO["placement"]["clusters"])


def test_new_prices_in_the_config_map_change_the_decision(wanting: Cluster, api: OpaApi) -> None:
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    web = {
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"customer": "northwind"}},
        "spec": {"template": {"spec": {"containers": [{"name": "web", "resources": requests}]}}},
    }
    until(lambda: clusters(asked(api, web)) == {"us-dallas"}, what="the cheapest")
    dallas = {**SCENARIO["placement"]["clusters"]["us-dallas"], "price": {"cpu": 1, "memory": 1}}
    known = {**SCENARIO["placement"]["clusters"], "us-dallas": dallas}
    bring(wanting, {**SCENARIO["placement"], "clusters": known})
    until(lambda: clusters(asked(api, web)) == {"eu-frankfurt"}, what="new prices")
    bring(wanting, SCENARIO["placement"])


def test_nobody_else_may_ask(wanting: Cluster) -> None:
    server, *_ = wanting.opas()
    anonymous = OpaApi(server.url, ca=server.ca)
    try:
        response = anonymous.session.post(anonymous.url + PATH, json={"input": {}})
        assert response.status_code == 401
    finally:
        anonymous.close()


def answered(cluster: Cluster, token: str, method: str, path: str, body: str) -> set[int]:
    """The statuses of the answers of all OPAs to a request with a token."""
    statuses = set()
    for server in cluster.opas():
        with contextlib.closing(OpaApi(server.url, ca=server.ca, token=token)) as client:
            statuses.add(client.exchange(method, path, body.encode()).status_code)
    return statuses


def may_ask(cluster: Cluster, token: str) -> bool:
    """Whether each OPA answers about placement with this token. If they differ, this fails."""
    (status,) = answered(cluster, token, "POST", PATH, '{"input": {}}')
    assert status in (200, 401)
    return status == 200


def scoped_tokens(cluster: Cluster) -> dict[str, str]:
    """The tokens in the Secret of the scope."""
    secret = cluster.objects().get("v1", "Secret", "opa-token-placement", NAMESPACE) or {}
    return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


def test_the_token_of_placement_opens_this_request_alone(wanting: Cluster) -> None:
    token = scoped_tokens(wanting)["token"]
    assert may_ask(wanting, token)
    for method, path in (
        ("GET", PATH),
        ("PUT", PATH),
        ("PATCH", PATH),
        ("DELETE", PATH),
        ("POST", f"{PATH}/errors"),
        ("POST", f"{PATH}?pretty"),
        ("POST", f"{PATH}?explain=full"),
        ("POST", "/v1/data/k8s%2Fplacement"),
        ("POST", "/v1/data/k8s"),
        ("POST", "/v1/data"),
        ("POST", "/v0/data/k8s/placement"),
        ("POST", "/v1/query"),
        ("POST", "/v1/compile/k8s/placement"),
        ("GET", "/v1/policies"),
        ("PUT", "/v1/policies/x"),
        ("GET", "/"),
    ):
        assert answered(wanting, token, method, path, "{}") == {401}, f"{method} {path}"


@pytest.mark.parametrize(
    ("body", "status"),
    [("[" + "{}," * 450_000 + "{}]", 413), ('"' + "x" * (3 << 20) + '"', 413), ("{", 400)],
    ids=["many values", "many bytes", "half"],
)
def test_its_holder_cannot_send_what_opa_cannot_take(
    wanting: Cluster, body: str, status: int
) -> None:
    token = scoped_tokens(wanting)["token"]
    assert answered(wanting, token, "POST", PATH, body) == {status}
    assert may_ask(wanting, token)


def test_its_rotation_refuses_nobody_until_the_old_one_is_retired(wanting: Cluster) -> None:
    old = scoped_tokens(wanting)["token"]
    refused, ended = [], threading.Event()

    def keep_asking() -> None:
        while not ended.is_set():
            if not may_ask(wanting, old):
                refused.append(old)

    with ThreadPoolExecutor(1) as executor:
        asking = executor.submit(keep_asking)
        result = rotate.scoped_token(wanting, "placement", progress=Progress())
        ended.set()
        asking.result()
    new = scoped_tokens(wanting)["token"]
    assert refused == []
    assert result == {
        "scope": "placement",
        "digest": digest(new.encode()),
        "previous": digest(old.encode()),
    }
    assert scoped_tokens(wanting) == {"token": new, "previous": old}
    rotate.token(wanting, progress=Progress())
    assert may_ask(wanting, old), "the rotation of the other token leaves both"
    assert may_ask(wanting, new)
    rotate.scoped_token(wanting, "placement", retire=True, progress=Progress())
    assert scoped_tokens(wanting) == {"token": new}
    assert not may_ask(wanting, old)
    assert may_ask(wanting, new)


def test_a_deployment_keeps_it(wanting: Cluster) -> None:
    before = scoped_tokens(wanting)
    deploy.deploy(wanting, PolicySet.load(EVERYTHING), tested=True, progress=Progress())
    assert scoped_tokens(wanting) == before
    assert may_ask(wanting, before["token"])


def test_a_push_brings_a_new_revision_to_the_same_path(wanting: Cluster, api: OpaApi) -> None:
    changed = EVERYTHING.model_copy(update={"contact": "#platform"})
    result = push.push(wanting, PolicySet.load(changed), progress=Progress())
    assert result["revision"] != result["previous"]
    assert [warning for warning in result["warnings"] if "no decision" in warning] == []
    labelled = {"metadata": {"labels": {"customer": "medicare-plus"}}}
    assert clusters(asked(api, labelled)) == {"us-dallas"}
    (policies,) = policy_status.policies(wanting.objects())
    assert (policies["name"], policies["status"]) == (POLICIES, "ok")


def test_a_push_without_it_asks_for_a_deployment(wanting: Cluster, api: OpaApi) -> None:
    with pytest.raises(UsageError, match="placement changed since the last deployment"):
        push.push(wanting, PolicySet.load(WITHOUT), progress=Progress())


def test_without_placement_there_is_no_such_token(wanting: Cluster) -> None:
    token = scoped_tokens(wanting)["token"]
    deploy.deploy(wanting, PolicySet.load(WITHOUT), tested=True, progress=Progress())
    assert wanting.objects().get("v1", "Secret", "opa-token-placement", NAMESPACE) is None
    assert not may_ask(wanting, token)
    with pytest.raises(UsageError, match="no token of the scope placement: set `placement: true`"):
        rotate.scoped_token(wanting, "placement", progress=Progress())

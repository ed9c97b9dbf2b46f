"""A deployed OPA says on which clusters a workload may run, by data of a ConfigMap."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from conftest import POOLS, SETTINGS

from fairlead.clusters.base import Cluster
from fairlead.common import paths, waiting
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE, POLICIES
from fairlead.opa.api import OpaApi
from fairlead.operations import deployed_state, policy_status, push
from fairlead.operations.up import started

pytestmark = pytest.mark.embedded("it has other settings")

WANTED = SETTINGS.model_copy(update={"placement": True})
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
def wanting() -> Iterator[Cluster]:
    """A cluster whose OPA answers about placement, with the data of the scenario."""
    name = f"test-placement-{os.getpid()}"
    with started(name, WANTED, POOLS, sidecar="sync", progress=Progress()) as cluster:
        bring(cluster, SCENARIO["placement"])
        cluster.objects().apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": "shop", "labels": {"customer": "medicare-plus"}},
            }
        )
        yield cluster


@pytest.fixture
def api(wanting: Cluster) -> Iterator[OpaApi]:
    """A client of its OPA's API with the token."""
    credentials = deployed_state.credentials(wanting.objects())
    assert credentials is not None
    server, *_ = wanting.opas()
    client = OpaApi(server.url, ca=server.ca, token=credentials.token)
    yield client
    client.close()


def asked(api: OpaApi, resource: Any) -> dict[str, Any]:
    """OPA's answer about a workload."""
    response = api._connection.session.post(api.url + PATH, json={"input": {"resource": resource}})
    assert response.status_code == 200
    result: dict[str, Any] = response.json().get("result", {})
    return result


def clusters(answer: dict[str, Any]) -> set[str]:
    """The names of the clusters of an answer."""
    annotations = answer.get("annotations", {})
    return set(annotations.get("replica-set-preferences", {}).get("clusters", {}))


def test_it_decides_by_the_config_map_and_the_labels_of_the_namespace(api: OpaApi) -> None:
    web = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    waiting.until(
        lambda: clusters(asked(api, web)) == {"us-dallas"}, deadline=60, what="OPA has the data"
    )
    assert asked(api, web)["errors"] == {}
    assert len(asked(api, web)["explanation"]) == len(SCENARIO["placement"]["clusters"])


def test_new_prices_in_the_config_map_change_the_decision(wanting: Cluster, api: OpaApi) -> None:
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    web = {
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"customer": "northwind"}},
        "spec": {"template": {"spec": {"containers": [{"name": "web", "resources": requests}]}}},
    }
    waiting.until(
        lambda: clusters(asked(api, web)) == {"us-dallas"}, deadline=60, what="the cheapest"
    )
    dallas = {**SCENARIO["placement"]["clusters"]["us-dallas"], "price": {"cpu": 1, "memory": 1}}
    known = {**SCENARIO["placement"]["clusters"], "us-dallas": dallas}
    bring(wanting, {**SCENARIO["placement"], "clusters": known})
    waiting.until(
        lambda: clusters(asked(api, web)) == {"eu-frankfurt"}, deadline=60, what="new prices"
    )
    bring(wanting, SCENARIO["placement"])


def test_nobody_else_may_ask(wanting: Cluster) -> None:
    server, *_ = wanting.opas()
    anonymous = OpaApi(server.url, ca=server.ca)
    try:
        response = anonymous._connection.session.post(anonymous.url + PATH, json={"input": {}})
        assert response.status_code == 401
    finally:
        anonymous.close()


def test_a_push_brings_a_new_revision_to_the_same_path(wanting: Cluster, api: OpaApi) -> None:
    changed = WANTED.model_copy(update={"contact": "#platform"})
    result = push.push(wanting, changed, progress=Progress())
    assert result["revision"] != result["previous"]
    assert [warning for warning in result["warnings"] if "no decision" in warning] == []
    labelled = {"metadata": {"labels": {"customer": "medicare-plus"}}}
    assert clusters(asked(api, labelled)) == {"us-dallas"}
    (policies,) = policy_status.policies(wanting.objects())
    assert (policies["name"], policies["status"]) == (POLICIES, "ok")


def test_a_push_without_it_asks_for_a_deployment(wanting: Cluster, api: OpaApi) -> None:
    with pytest.raises(UsageError, match="placement changed since the last deployment"):
        push.push(wanting, SETTINGS, progress=Progress())

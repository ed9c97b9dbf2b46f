"""In a host cluster, workloads of customers get the decision about their clusters at admission."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import suspension
import yaml
from applied import applied, namespace_manifest
from waits import until

from fairlead.clusters.base import Cluster
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths
from fairlead.deployment.names import DATA_LABEL, NAMESPACE
from fairlead.kube import clients
from fairlead.kube.clients import Objects
from fairlead.kube.errors import Refused
from fairlead.placement.placements import ANNOTATION

PROFILES = ["everything"]
pytestmark = pytest.mark.embedded("it has other settings, and stops processes of this machine")

SCENARIO = yaml.safe_load((paths.root() / "testdata" / "placement" / "data.yaml").read_text())


@pytest.fixture(scope="module")
def host(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """A host cluster that knows the data of the scenario, with a namespace of medicare-plus."""
    objects = cluster.objects()
    bring(cluster, SCENARIO["placement"])
    namespaces = (
        namespace_manifest("care", customer="medicare-plus"),
        namespace_manifest("nobodys"),
    )
    with applied(objects, namespaces):
        until(lambda: admitted(cluster, deployment("first")), what="OPA has the data")
        yield cluster
    objects.delete("v1", "ConfigMap", "placement", NAMESPACE)


@pytest.fixture
def objects(host: Cluster) -> clients.Objects:
    """The host cluster's API."""
    return host.objects()


def bring(cluster: Cluster, placement: dict[str, Any]) -> None:
    """Make these the data of placement."""
    metadata = {"name": "placement", "namespace": NAMESPACE, "labels": dict([DATA_LABEL])}
    data = {key: json.dumps(part) for key, part in placement.items()}
    cluster.objects().apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    )


def deployment(name: str, namespace: str = "care", image: str = "a", **says: str) -> dict[str, Any]:
    """A Deployment without pods, which the customer's clusters have room for."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "annotations": says},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    }


def admitted(cluster: Cluster, manifest: dict[str, Any]) -> bool:
    """Whether the workload is admitted, by a dry run."""
    try:
        cluster.objects().apply(manifest, dry_run=True)
    except Refused:
        return False
    return True


def clusters(stored: dict[str, Any]) -> set[str] | None:
    """The clusters in the annotation of a workload; None if it has none."""
    text = (stored["metadata"].get("annotations") or {}).get(ANNOTATION)
    if text is None:
        return None
    decided = json.loads(text)
    assert text == json.dumps(decided, sort_keys=True, separators=(",", ":"))
    return set(decided["clusters"])


def test_a_new_workload_gets_the_decision(objects: clients.Objects) -> None:
    assert clusters(objects.create(deployment("web"))) == {"us-dallas"}
    template = deployment("x")["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "report", "namespace": "care", "labels": {"customer": "alpenbank"}},
        "spec": {"suspend": True, "template": template},
    }
    assert clusters(objects.create(job)) == {"eu-frankfurt"}


def test_to_apply_it_again_changes_nothing(objects: clients.Objects) -> None:
    first = objects.apply(deployment("again"))
    assert clusters(first) == {"us-dallas"}
    again = objects.apply(deployment("again"))
    text = first["metadata"]["annotations"][ANNOTATION]
    assert again["metadata"]["annotations"][ANNOTATION] == text
    assert again["metadata"]["generation"] == first["metadata"]["generation"] == 1


def test_an_update_gets_the_decision_whatever_the_tenant_writes(objects: clients.Objects) -> None:
    written = json.dumps({"clusters": {"eu-west-1": {"weight": 1}}})
    created = objects.create(deployment("moving", **{ANNOTATION: written}))
    assert clusters(created) == {"us-dallas"}
    moved = objects.apply(deployment("moving", customer="alpenbank"))
    assert clusters(moved) == {"eu-frankfurt"}
    objects.merge(moved, {"metadata": {"annotations": {ANNOTATION: written}}})
    kept = objects.get("apps/v1", "Deployment", "moving", "care") or {}
    assert clusters(kept) == {"eu-frankfurt"}
    objects.merge(moved, {"metadata": {"annotations": {ANNOTATION: None, "customer": None}}})
    back = objects.get("apps/v1", "Deployment", "moving", "care") or {}
    assert clusters(back) == {"us-dallas"}, "that of the namespace"


def test_without_a_customer_there_is_no_annotation(objects: clients.Objects) -> None:
    created = objects.create(deployment("own", "nobodys", customer="alpenbank"))
    assert clusters(created) == {"eu-frankfurt"}
    objects.merge(created, {"metadata": {"annotations": {"customer": None}}})
    assert clusters(objects.get("apps/v1", "Deployment", "own", "nobodys") or {}) is None
    written = deployment("handmade", "nobodys", **{ANNOTATION: '{"clusters":{}}'})
    assert clusters(objects.create(written)) is None


def test_what_cannot_be_placed_is_refused_with_the_reasons(objects: clients.Objects) -> None:
    with pytest.raises(Refused, match=r'customer "umbrella" is not known'):
        objects.create(deployment("bad", customer="umbrella"))
    wish = {"replica-set-preferences": '["eu-west-1"]'}
    with pytest.raises(Refused, match=r"invalid cluster\(s\): eu-west-1"):
        objects.create(deployment("bad", **wish))
    selector = {"federation.alpha.kubernetes.io/cluster-selector": '[{"key": "pci"}]'}
    with pytest.raises(Refused, match=r"cluster-selector: a requirement is malformed"):
        objects.create(deployment("bad", **selector))
    assert objects.get("apps/v1", "Deployment", "bad", "care") is None


def test_a_scale_leaves_it_alone(host: Cluster, objects: clients.Objects) -> None:
    created = objects.create(deployment("scaled"))
    path = "/apis/apps/v1/namespaces/care/deployments/scaled/scale"
    rest = Objects(host.kubeconfig)
    scale = rest.request("GET", path).body
    scale["spec"]["replicas"] = 1
    del scale["metadata"]["resourceVersion"]  # a controller may have written the status meanwhile
    assert rest.request("PUT", path, scale).status == 200
    stored = objects.get("apps/v1", "Deployment", "scaled", "care") or {}
    assert stored["spec"]["replicas"] == 1
    assert clusters(stored) == clusters(created)


def test_what_runs_can_be_changed_after_its_cluster_has_lost_a_certification(
    host: Cluster, objects: clients.Objects
) -> None:
    objects.apply(deployment("runs"))
    lost = json.loads(json.dumps(SCENARIO["placement"]))
    lost["clusters"]["us-dallas"]["certifications"].remove("hipaa")
    bring(host, lost)
    try:
        until(lambda: not admitted(host, deployment("new")), what="OPA has the data")
        mended = objects.apply(deployment("runs", image="b"))
        assert clusters(mended) == {"us-dallas"}
        wish = {"criticality": "low"}
        with pytest.raises(Refused, match="no cluster: "):
            objects.apply(deployment("runs", image="b", **wish))
        objects.delete("apps/v1", "Deployment", "runs", "care")
    finally:
        bring(host, SCENARIO["placement"])
        until(lambda: admitted(host, deployment("new")), what="OPA has the data again")


def test_without_an_answer_nothing_is_admitted(
    host: EmbeddedCluster, objects: clients.Objects
) -> None:
    opa, *_ = host.opas()
    with (
        suspension.suspended(opa.pid),
        pytest.raises(Refused, match=r"federated-placement\.fairlead\.dev"),
    ):
        objects.create(deployment("unanswered"))
    until(lambda: admitted(host, deployment("unanswered")), what="OPA answers again")

"""Continuous findings: what came in unplaced is found by name, and written as Reports that say only
what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from applied import applied
from prometheus_client import CollectorRegistry
from waits import until

from fairlead.admission.findings import Findings
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import texts
from fairlead.deployment.names import FINDINGS_LEASE, NAMESPACE
from fairlead.kube import clients
from fairlead.kube.api_requests import ApiRequests
from fairlead.kube.errors import Refused
from fairlead.kube.own_kinds import VERSION
from fairlead.operations import disable, finding_reports

pytestmark = pytest.mark.embedded("it disables node-pool")

Object = dict[str, Any]
LOOKED = "fairlead.dev/findings"
LEASE: Object = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": FINDINGS_LEASE, "namespace": NAMESPACE},
}
OPEN, WORKING_GROUP = finding_reports.KINDS


def definition(version: str, kind: str, scope: str) -> Object:
    """A kind of reports that stores whatever is written."""
    group, name = version.split("/")
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural},
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }


def definitions(api: tuple[str, str, str]) -> list[Object]:
    version, kind, cluster_kind = api
    return [definition(version, kind, "Namespaced"), definition(version, cluster_kind, "Cluster")]


@pytest.fixture
def served(objects: clients.Objects) -> Iterator[Callable[..., None]]:
    """Has the cluster serve an API of reports."""
    contexts = []

    def serve(api: tuple[str, str, str]) -> None:
        context = applied(objects, definitions(api))
        context.__enter__()
        contexts.append(context)
        version, *kinds = api
        until(
            lambda: all(objects.serves({"apiVersion": version, "kind": kind}) for kind in kinds),
            what="the kinds are served",
        )

    yield serve
    for context in contexts:
        context.__exit__(None, None, None)


def findings(cluster: EmbeddedCluster, registry: CollectorRegistry | None = None) -> Findings:
    """What the controller does; this one does it at once."""
    return Findings(
        cluster.objects(),
        ApiRequests(cluster.kubeconfig),
        every=timedelta(),
        replica="test",
        registry=registry or CollectorRegistry(),
        settled=0.0,
    )


def look(objects: clients.Objects, working: Findings) -> None:
    """Return when it has looked; the controller of the cluster may be at it."""
    objects.merge(LEASE, {"metadata": {"annotations": {LOOKED: None}}})

    def has_looked() -> bool:
        working.look()
        lease = objects.get(LEASE["apiVersion"], LEASE["kind"], FINDINGS_LEASE, NAMESPACE) or {}
        annotation = lease["metadata"].get("annotations", {}).get(LOOKED, "")
        return str(annotation).endswith(" test")

    until(has_looked, what="it has looked")


def unplaced(cluster: EmbeddedCluster, objects: clients.Objects, *pods: Object) -> None:
    """Bring pods in while nothing places them."""
    disable.disable(cluster, "node-pool", "a test")
    try:
        for pod in pods:
            objects.apply(pod)
    finally:
        disable.enable(cluster, "node-pool")


def reports(objects: clients.Objects, api: tuple[str, str, str], namespace: str) -> list[Object]:
    return objects.list(api[0], api[1], namespace)


@pytest.mark.parametrize("api", [OPEN, WORKING_GROUP], ids=["openreports", "wgpolicyk8s"])
def test_what_came_in_unplaced_is_a_finding_until_it_is_gone(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    new_namespace: Callable[..., str],
    pod: Callable[..., Object],
    served: Callable[..., None],
    api: tuple[str, str, str],
) -> None:
    served(api)
    namespace, quiet = new_namespace(agentpool="pool1"), new_namespace(agentpool="pool1")
    objects.apply(pod(quiet))
    choosing = pod(namespace, "choosing", nodeSelector={"disk": "ssd"})
    unplaced(cluster, objects, pod(namespace, "forgotten"), choosing)
    registry = CollectorRegistry()
    working = findings(cluster, registry)
    look(objects, working)
    assert reports(objects, api, quiet) == []
    (report,) = reports(objects, api, namespace)
    assert report["metadata"]["name"] == "fairlead-node-pool"
    assert report["summary"] == {"pass": 0, "fail": 2, "warn": 0, "error": 0, "skip": 0}
    by_name = {result["resources"][0]["name"]: result for result in report["results"]}
    assert by_name.keys() == {"choosing", "forgotten"}
    assert {result["result"] for result in by_name.values()} == {"fail"}
    assert "it lacks what a new one gets: add /spec/nodeSelector" in by_name["forgotten"]["message"]
    assert "sets spec.nodeSelector disk=ssd" in by_name["choosing"]["message"]
    labels = {"intent": "node-pool", "namespace": namespace, "result": "fail"}
    assert registry.get_sample_value("fairlead_findings", labels) == 2
    look(objects, working)
    (again,) = reports(objects, api, namespace)
    assert again["metadata"]["resourceVersion"] == report["metadata"]["resourceVersion"]
    for name in by_name:
        objects.delete("v1", "Pod", name, namespace)
    until(lambda: not objects.list("v1", "Pod", namespace), what="the pods are gone")
    look(objects, working)
    assert reports(objects, api, namespace) == []
    assert registry.get_sample_value("fairlead_findings", labels) is None


def test_pods_of_one_template_are_judged_once_and_each_is_named(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    new_namespace: Callable[..., str],
    pod: Callable[..., Object],
    served: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served(OPEN)
    monkeypatch.setattr(finding_reports, "MOST", 3)
    namespace = new_namespace(agentpool="pool1")
    pods = []
    for suffix in ("22222", "44444", "55555", "66666"):
        each = pod(namespace, f"web-{suffix}")
        each["metadata"]["generateName"] = "web-"
        pods.append(each)
    unplaced(cluster, objects, *pods)
    working = findings(cluster)
    look(objects, working)
    (report,) = reports(objects, OPEN, namespace)
    assert report["summary"]["fail"] == 4
    assert report["metadata"]["annotations"][finding_reports.FURTHER] == "1"
    names = [result["resources"][0]["name"] for result in report["results"]]
    assert names == ["web-22222", "web-44444", "web-55555"]
    in_namespace = {repr(answer) for answer in working._remembered.values()}
    assert len(in_namespace) < len(working._remembered) or len(working._remembered) < len(pods)
    for name in [each["metadata"]["name"] for each in pods]:
        objects.delete("v1", "Pod", name, namespace)


def test_what_an_exception_let_in_is_a_finding_after_its_end(
    objects: clients.Objects,
    cluster: EmbeddedCluster,
    new_namespace: Callable[..., str],
    pod: Callable[..., Object],
    served: Callable[..., None],
) -> None:
    served(OPEN)
    namespace = new_namespace(agentpool="pool1")
    choosing = pod(namespace, nodeSelector={"disk": "ssd"})
    end = texts.time(datetime.now(UTC) + timedelta(seconds=15))
    exception = {
        "apiVersion": VERSION,
        "kind": "PolicyException",
        "metadata": {"name": "short", "namespace": namespace},
        "spec": {
            "intents": ["node-pool"],
            "objects": {"names": ["*"]},
            "reason": "a test",
            "owner": "a test",
            "until": end,
        },
    }
    working = findings(cluster)
    with applied(objects, [exception]):

        def is_admitted() -> bool:
            try:
                objects.apply(choosing)
            except Refused:
                return False
            return True

        until(is_admitted, what="the exception is in force")
        look(objects, working)
        is_early = texts.now() < end
        assert not is_early or reports(objects, OPEN, namespace) == []
        until(lambda: texts.now() > end, what="it has ended")
        look(objects, working)
        (report,) = reports(objects, OPEN, namespace)
        assert report["summary"]["fail"] == 1
    objects.delete("v1", "Pod", "web", namespace)


def test_what_others_write_into_a_report_is_undone(
    objects: clients.Objects,
    cluster: EmbeddedCluster,
    new_namespace: Callable[..., str],
    pod: Callable[..., Object],
    served: Callable[..., None],
) -> None:
    served(OPEN)
    namespace = new_namespace(agentpool="pool1")
    unplaced(cluster, objects, pod(namespace, "forgotten"))
    working = findings(cluster)
    look(objects, working)
    (report,) = reports(objects, OPEN, namespace)
    other = clients.Objects(cluster.kubeconfig, field_manager="other")
    other.merge(report, {"results": [], "summary": {"fail": 0}})
    look(objects, working)
    (again,) = reports(objects, OPEN, namespace)
    assert (again["results"], again["summary"]) == (report["results"], report["summary"])
    objects.delete("v1", "Pod", "forgotten", namespace)


def test_a_cluster_without_reports_is_looked_at_for_its_metrics(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    look(objects, findings(cluster))
    lease = objects.get(LEASE["apiVersion"], LEASE["kind"], FINDINGS_LEASE, NAMESPACE)
    assert lease
    revision, time, replica = lease["metadata"]["annotations"][LOOKED].split()
    assert (len(revision), time[-1], replica) == (12, "Z", "test")

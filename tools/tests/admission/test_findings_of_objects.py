"""What continuous findings say of stored objects, with the real OPA: each object is judged, and OPA
is asked only about those that differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.admission import asked, audit, findings, inventory, judgements
from fairlead.admission.earlier_pools import Pools
from fairlead.admission.inventory import Subject
from fairlead.admission.judgements import Judgements
from fairlead.operations.finding_reports import Collected, Finding
from fairlead.policy import exceptions
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

NODES = {"pool1-0": {"agentpool": "pool1"}, "pool2-0": {"agentpool": "pool2"}}


def pod(name: str, prefix: str = "", volume: str = "", **spec: Any) -> dict[str, Any]:
    """A pod as it is stored, of the namespace payments."""
    generated = {"generateName": prefix} if prefix else {}
    mounted = {"volumes": [{"name": f"kube-api-access-{volume}"}]} if volume else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "payments", "uid": name, **generated},
        "spec": {"containers": [{"name": "c", "image": "i"}], **mounted, **spec},
    }


def subjects(*pods: dict[str, Any]) -> Iterator[Subject]:
    for each in pods:
        yield from inventory.of_pod(each, Pools(Settings()))


def judged(
    settings: Settings | None = None, remembered: dict[bytes, audit.Answer] | None = None
) -> Judgements:
    policies = PolicySet.load(settings or Settings())
    labels = {"agentpool": "pool1", "kubernetes.io/metadata.name": "payments"}
    kubernetes = {
        "namespaces": {"payments": {"metadata": {"name": "payments", "labels": labels}}},
        exceptions.RESOURCE.name: {},
    }
    return Judgements(asked.rendered(policies), policies.modules, kubernetes, remembered or {})


def found(
    working: Judgements, *pods: dict[str, Any], settings: Settings | None = None
) -> list[Finding]:
    return [
        finding
        for subject, answers in working.of(subjects(*pods))
        for finding in findings.of_subject(subject, answers, NODES, settings or Settings())
    ]


def test_pods_of_one_template_are_one_question() -> None:
    working = judged()
    every = found(
        working,
        pod("web-22222", "web-", "aaaaa"),
        pod("web-44444", "web-", "bbbbb"),
        pod("db-22222", "db-", "ccccc"),
        pod("web", volume="ddddd"),
    )
    assert [finding.name for finding in every] == ["web-22222", "web-44444", "db-22222", "web"]
    assert {finding.message for finding in every} == {
        'it lacks what a new one gets: add /spec/nodeSelector {"agentpool": "pool1"}'
    }
    assert len(working.used) == 3


def test_what_is_remembered_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = judged()
    before = found(first, pod("web-22222", "web-"), pod("other"))
    monkeypatch.setattr(audit, "decide", None)  # so that nothing can be asked
    again = judged(remembered=first.used)
    assert found(again, pod("web-55555", "web-")) == [
        Finding(**{**vars(before[0]), "name": "web-55555"})
    ]
    assert len(again.used) == 1  # what is gone is forgotten


def test_each_object_is_judged_though_batches_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [pod(f"pod-{number}", tolerations=[{"key": f"k{number}"}]) for number in range(7)]
    names = [each["metadata"]["name"] for each in pods]
    for constant, value in (("BATCH", 2), ("_WAITING", 3), ("_CHARACTERS", 10)):
        with monkeypatch.context() as patched:
            patched.setattr(judgements, constant, value)
            assert [finding.name for finding in found(judged(), *pods)] == names


def test_where_a_pod_runs_and_what_refuses_it_are_one_finding() -> None:
    choosing = pod("web", nodeName="pool2-0", nodeSelector={"disk": "ssd"})
    (finding,) = found(judged(), choosing)
    assert finding.result == "fail"
    assert finding.message.startswith("runs on pool2-0, which is not labelled agentpool=pool1; pod")
    assert "sets spec.nodeSelector disk=ssd" in finding.message


def test_an_intent_that_warns_has_warnings() -> None:
    settings = Settings(enforcement={"node-pool": "warn"})
    choosing = pod("web", nodeName="pool2-0", nodeSelector={"disk": "ssd"})
    (finding,) = found(judged(settings), choosing, settings=settings)
    assert finding.result == "warn"


def test_a_placed_pod_is_no_finding() -> None:
    placed = pod("web", nodeName="pool1-0", nodeSelector={"agentpool": "pool1"})
    placed["metadata"]["managedFields"] = [
        {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:containers": {}}}}
    ]
    assert found(judged(), placed) == []


def test_of_many_findings_the_first_are_kept_and_all_are_counted() -> None:
    collected = Collected()
    for number in range(250):
        collected.add(Finding("payments", "node-pool", "fail", "v1", "Pod", f"p{number}", "m"))
    collected.add(Finding("payments", "node-pool", "warn", "v1", "Pod", "p", "m"))
    (counts,) = collected.counts.values()
    assert (counts["fail"], counts["warn"]) == (250, 1)
    assert len(collected.first["payments", "node-pool"]) == 200

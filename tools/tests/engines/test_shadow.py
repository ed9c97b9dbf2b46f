"""What `fairlead shadow` compares, counts, keeps waiting and shows."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from fairlead.engines import disagreements
from fairlead.engines.disagreements import Answer
from fairlead.engines.shadow import answers, masking, report
from fairlead.engines.shadow.waiting import Queue, Waiting

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"app": "web"}, "annotations": {"token": "s3cret"}},
    "spec": {
        "nodeSelector": {"agentpool": "pool1"},
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "args": ["--password=s3cret"],
                "env": [{"name": "KEY", "value": "s3cret"}],
                "resources": {"limits": {"memory": "1Gi"}},
            }
        ],
    },
}
REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "team",
        "name": "a",
        "userInfo": {"username": "eve"},
        "object": POD,
    },
}


def changed(**spec: Any) -> dict[str, Any]:
    return {**POD, "spec": {**POD["spec"], **spec}}


@pytest.mark.parametrize(
    ("one", "other", "kind", "why"),
    [
        (Answer(True), Answer(False, "no"), "allowed", "allowed, and refused (no)"),
        (Answer(None, "away"), Answer(True), "allowed", "undecided (away), and allowed"),
        (Answer(False, "no"), Answer(False, "never"), None, ""),
        (Answer(True, object=POD), Answer(True, object=POD), None, ""),
        (Answer(True, object=POD), Answer(True, object={**POD, "status": {}}), None, ""),
        (
            Answer(True, object=POD),
            Answer(True, object=changed(nodeSelector={"agentpool": "pool2"})),
            "object",
            "object.spec.nodeSelector.agentpool: 'pool1', and 'pool2'",
        ),
        (
            Answer(True, object=changed(hostNetwork=True)),
            Answer(True, object=changed(hostNetwork=1)),
            "object",
            "object.spec.hostNetwork: True, and 1",
        ),
        (Answer(True, warnings=("a",)), Answer(True), "warnings", "warnings ['a'], and []"),
        (Answer(True, warnings=("a",)), Answer(True, warnings=("b",)), None, ""),
    ],
)
def test_what_counts_as_a_disagreement(one: Answer, other: Answer, kind: str, why: str) -> None:
    found = disagreements.between(one, other)
    if kind is None:
        assert found is None
    else:
        assert found is not None
        assert (found.kind, found.why) == (kind, why)


def test_a_webhooks_answer_has_the_object_after_its_patch() -> None:
    patch = [{"op": "add", "path": "/spec/nodeName", "value": "n"}]
    response = {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
        "warnings": ["careful"],
    }
    answer = answers.of_response({"response": response}, REVIEW)
    assert answer == Answer(True, "", changed(nodeName="n"), ("careful",))
    refused = {"response": {"allowed": False, "status": {"message": "no"}}}
    assert answers.of_response(refused, REVIEW) == Answer(False, "no")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"response": None},
        {"response": {"allowed": True, "patchType": "JSONPatch", "patch": "?"}},
        {
            "response": {
                "allowed": True,
                "patchType": "JSONPatch",
                "patch": base64.b64encode(b'[{"op": "remove", "path": "/none"}]').decode(),
            }
        },
    ],
)
def test_an_answer_that_cannot_be_used_is_none(answer: dict[str, Any]) -> None:
    assert answers.of_response(answer, REVIEW).allowed is None


def test_examples_hide_what_may_be_a_secret() -> None:
    other = changed(
        containers=[{**POD["spec"]["containers"][0], "env": [{"name": "KEY", "value": "t0p"}]}]
    )
    enforcing, shadow = Answer(True, object=POD), Answer(True, object=other)
    found = disagreements.between(enforcing, shadow)
    assert found is not None
    shown = report.example(REVIEW, found, enforcing, shadow)
    written = json.dumps(shown)
    assert "s3cret" not in written
    assert "t0p" not in written
    assert shown["why"] == "a part that is hidden here"
    assert (shown["user"], shown["operation"], shown["kind"]) == ("eve", "CREATE", "Pod")
    assert (shown["namespace"], shown["name"]) == ("team", "a")
    seen = json.loads(shown["object"])
    assert seen["spec"]["nodeSelector"] == {"agentpool": "pool1"}
    assert seen["spec"]["containers"][0]["image"] == "nginx"
    assert seen["spec"]["containers"][0]["env"] == [{"name": "KEY", "value": masking.HIDDEN}]
    assert seen["metadata"]["annotations"] == {"token": masking.HIDDEN}


def test_examples_stay_small_and_in_one_line_whatever_a_tenant_sends() -> None:
    huge = {"metadata": {"name": "x" * 10**6, "labels": {f"k{n}": "v" * 300 for n in range(10**4)}}}
    review = {**REVIEW, "request": {**REVIEW["request"], "name": "\x1b[2J\n" * 999, "object": huge}}
    found = disagreements.Disagreement("allowed", "")
    shown = report.example(review, found, Answer(True), Answer(False, "\x1b]0;x\x07" * 999))
    assert len(json.dumps(shown)) < 6000
    assert "\x1b" not in "".join(str(value) for value in shown.values())


def test_what_waits_is_bounded_by_number_and_bytes() -> None:
    queue = Queue(most=3, largest=100)
    assert [queue.put(Waiting("i", n, 10)) for n in range(4)] == [True, True, True, False]
    assert [waiting.review for waiting in queue.take(2, 0)] == [0, 1]
    assert queue.put(Waiting("i", 4, 90))
    assert not queue.put(Waiting("i", 5, 1))
    assert [waiting.review for waiting in queue.take(9, 0)] == [2, 4]
    assert queue.take(9, 0) == []
    assert queue.put(Waiting("i", 6, 100))


def test_what_waits_again_is_taken_when_it_is_due() -> None:
    queue = Queue()
    now = time.monotonic()
    queue.put(Waiting("i", "later", 1, again=True, due=now + 3600))
    queue.put(Waiting("i", "new", 1))
    assert [waiting.review for waiting in queue.take(9, 0)] == ["new"]
    assert queue.take(9, 0) == []
    due = Queue()
    due.put(Waiting("i", "new", 1))
    due.put(Waiting("i", "due", 1, again=True, due=now))
    assert [waiting.review for waiting in due.take(9, 0)] == ["due", "new"]

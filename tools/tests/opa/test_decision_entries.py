"""What people read of entries of OPA's decision log."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.opa import decision_entries

REFUSED = {"allowed": False, "status": {"message": "no, because"}}
NOTES = {"node-pool": "refused: no, because", "decisionUID": "42"}


def entry(response: Any, **others: Any) -> dict[str, Any]:
    request = {
        "uid": "42",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "payments",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": {"metadata": {"generateName": "web-"}},
    }
    return {
        "decision_id": "1",
        "timestamp": "2026-01-02T03:04:05.678901234Z",
        "input": {"request": request},
        "result": {"response": response},
        **others,
    }


def test_a_decision_says_when_who_what_the_verdict_and_why() -> None:
    assert decision_entries.summary(entry({**REFUSED, "auditAnnotations": NOTES})) == {
        "time": "2026-01-02T03:04:05Z",
        "user": "kube-system:replicaset-controller",
        "request": "CREATE of Pod payments/web-*",
        "verdict": "refused",
        "reason": "no, because",
    }


@pytest.mark.parametrize(
    ("logged", "verdict", "reason"),
    [
        (entry(REFUSED), "refused", "no, because"),
        (
            entry({"allowed": True, "auditAnnotations": {"node-pool": "placed: gpu"}}),
            "placed",
            "gpu; there already",
        ),
        (
            entry(
                {
                    "allowed": True,
                    "patch": "W10=",
                    "auditAnnotations": {"decisionUID": "42", "node-pool": "placed: gpu"},
                }
            ),
            "placed",
            "gpu; added",
        ),
        (
            entry(
                {
                    "allowed": True,
                    "warnings": ["a", "b"],
                    "auditAnnotations": {"node-pool": "would be refused: a"},
                }
            ),
            "warned",
            "a; b",
        ),
        (entry({"allowed": True}), "allowed", None),
        (
            entry(None, error={"code": "x", "message": "undefined decision"}),
            "failed",
            "undefined decision",
        ),
        ({"decision_id": "1"}, "failed", "OPA had no answer"),
        (
            entry(
                {
                    **REFUSED,
                    "auditAnnotations": {"a": "would be refused: x", "b": "refused: no, because"},
                }
            ),
            "refused",
            "no, because",
        ),
    ],
    ids=["refused", "final check", "placed", "warned", "allowed", "failed", "nothing", "gravest"],
)
def test_the_verdict_is_the_gravest_outcome(
    logged: dict[str, Any], verdict: str, reason: str | None
) -> None:
    summary = decision_entries.summary(logged)
    assert (summary["verdict"], summary["reason"]) == (verdict, reason)


@pytest.mark.parametrize("value", [None, 1, "x", [], {"request": 1}, {"request": {"kind": 1}}])
def test_an_entry_of_a_forged_review_can_be_shown(value: Any) -> None:
    logged = entry(REFUSED, input=value, timestamp=value)
    summary = decision_entries.summary(logged)
    assert (summary["user"], summary["verdict"]) == ("-", "refused")
    assert decision_entries.time(logged).year == 1970


def test_the_annotation_with_the_uid_is_no_intent() -> None:
    logged = entry({"allowed": True, "auditAnnotations": NOTES})
    assert list(decision_entries.outcomes(logged)) == [("node-pool", "denied")]

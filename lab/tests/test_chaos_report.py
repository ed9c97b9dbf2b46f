"""The report of a run counts its attempts, and measures recovery from the end of a fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.chaos import report
from lab.chaos.changes import Change
from lab.chaos.faults import Broke
from lab.chaos.invariants import Attempt, Verdict

REFUSED = (
    'admission webhook "node-pool.fairlead.dev" denied the request: pod "{}" sets spec.nodeSelector'
)


def attempt(began: float, ended: float, status: int = 201, **changed: Any) -> Attempt:
    values: dict[str, Any] = {
        "namespace": "a",
        "pool": "gpu",
        "pod": "web",
        "wish": "plain",
        "reason": "",
    }
    return Attempt(**{**values, "began": began, "ended": ended, "status": status, **changed})


def test_creates_are_counted_by_what_became_of_them() -> None:
    attempts = [
        attempt(0, 1),
        attempt(0, 1, pool=None),
        attempt(0, 1, 409, reason="already exists"),
        attempt(0, 1, pod="(namespace)", wish="namespace"),
        attempt(0, 1, wish="first"),
        attempt(0, 1, 403, reason=REFUSED.format("web")),
        attempt(0, 1, 0, reason="refused"),
    ]
    assert report.creates(attempts) == {
        "tried": 7,
        "placed": 3,
        "left alone": 1,
        "namespaces": 1,
        "first pods": 1,
        "refused": 1,
        "failed": 1,
    }


def test_recovery_lasts_from_the_end_of_an_episode_until_a_pod_is_placed() -> None:
    attempts = [
        attempt(9.0, 10.1),  # asked for before the fault
        attempt(10.2, 10.3, 0, reason="Connection refused"),
        attempt(10.4, 10.5, pool=None),
        attempt(10.4, 10.6, wish="evading", status=403, reason=REFUSED.format("web")),
        attempt(11.0, 12.5),
        attempt(12.6, 13.0, 500, reason="timeout"),
        attempt(40.0, 41.0, 500, reason="of the next one"),
    ]
    broke = [
        Broke("kill opa", "opa-0", 0, 10.0, 10.0),
        Broke("stop sync", "sync-0", 0, 10.0, 12.0),
        Broke("kill opa", "opa-0, opa-1", 1, 39.0, 39.0),
    ]
    summary = report.faults(attempts, broke)
    kill, stop = summary["faults"]
    assert (kill["fault"], kill["times"], kill["survived"]) == ("kill opa", 2, 1)
    assert (stop["longest"], stop["settled"]) == (0.5, 1.0)
    assert summary["recovery"] == {"p50": 0.5, "p95": 0.5, "longest": 0.5, "settled": 2.0}


@pytest.mark.parametrize(
    ("percent", "value"),
    [(50, 10.0), (95, 19.0), (100, 20.0), (1, 1.0)],
    ids=["median", "p95", "longest", "least"],
)
def test_a_percentile_is_one_of_the_values(percent: float, value: float) -> None:
    assert report.percentile([float(n) for n in range(20, 0, -1)], percent) == value
    assert report.percentile([], percent) is None


def test_the_same_reason_with_other_names_counts_together() -> None:
    attempts = [
        attempt(0, 1, 403, reason=REFUSED.format(name), pool=pool)
        for name, pool in (("x", "p"), ("y1", None))
    ]
    (row,) = report.summary(attempts, [], [], [])["refused"]
    assert (row["count"], row["mapped"], row["unmapped"]) == (2, 1, 1)
    assert "node-pool.fairlead.dev denied the request" in row["why"]


def test_the_summary_names_violations_and_is_json() -> None:
    verdict = Verdict("it holds", 100, tuple(f"a/pod-{n}: is wrong" for n in range(30)))
    changes = [
        Change("push", 1.0, 2.5, None),
        Change("push", 3.0, 4.0, "revision 0123456789ab is not taken"),
    ]
    summary = json.loads(json.dumps(report.summary([], [], changes, [verdict])))
    (invariant,) = summary["invariants"]
    assert (invariant["holds"], invariant["violations"], len(invariant["named"])) == (
        False,
        30,
        report.SHOWN,
    )
    assert invariant["named"][0] == "a/pod-0: is wrong"
    (push,) = summary["changes"]
    assert (push["done"], push["failed"], push["p95"]) == (1, 1, 1.5)
    assert push["why"] == ["1 x revision N is not taken"]

"""What the status of a Policy says of decisions."""

from __future__ import annotations

from typing import Any

from fairlead.controller import decided


def report(time: str, name: str = "web", **counts: int) -> dict[str, Any]:
    last = {"time": time, "outcome": "denied", "kind": "Pod", "namespace": "team", "name": name}
    return {"counts": counts, "last": last}


ONE = {"a": report("2026-03-02T12:00:00Z", denied=2), "other": report("2027-01-01T00:00:00Z", x=1)}
TWO = {"a": report("2026-03-02T12:00:05Z", "api", denied=1, allowed=4)}


def test_all_opas_and_instances_are_counted_together_and_the_last_decision_is_the_latest() -> None:
    status = decided.patch({}, ["a", "a-strict"], [ONE, TWO])
    assert status == {"decisions": {"denied": 3, "allowed": 4}, "lastDecision": TWO["a"]["last"]}
    both = {"a": ONE["a"], "a-strict": TWO["a"]}
    assert decided.patch({}, ["a", "a-strict"], [both]) == status
    assert decided.patch(status or {}, ["a"], [TWO, ONE]) is None
    assert decided.patch({}, ["b"], [ONE, TWO]) is None


def test_what_is_not_true_any_more_is_removed() -> None:
    before = {
        "decisions": {"denied": 9, "warned": 1},
        "lastDecision": {"time": "2026-03-02T12:00:00Z", "outcome": "denied", "name": "web"},
    }
    last = {"time": "2026-03-02T12:00:09Z", "outcome": "allowed"}
    status = decided.patch(before, ["a"], [{"a": {"counts": {"allowed": 1}, "last": last}}])
    assert status == {
        "decisions": {"denied": None, "warned": None, "allowed": 1},
        "lastDecision": {**last, "name": None},
    }

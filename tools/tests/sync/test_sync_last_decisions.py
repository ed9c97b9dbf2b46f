"""What PlacementPolicies decided last, for their status."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.deployment.names import POLICY_OBJECTS
from fairlead.sync.config_maps import Claim, Owner, Verdict
from fairlead.sync.last_decisions import PERIOD, LastDecisions

LIMITS, OTHER = (POLICY_OBJECTS, "limits"), ("fairlead", "map")
VERDICTS: dict[Owner, Verdict] = {
    LIMITS: Verdict("f", (), Claim(("team", "limits"))),
    OTHER: Verdict("f", ()),
}


class World:
    """Decisions with a clock that the test controls."""

    def __init__(self) -> None:
        self.now = 0.0
        self.last = LastDecisions(lambda: self.now)
        self.shown()

    def decide(self, minute: int, path: str = "team/limits/deny", **entry: Any) -> bool:
        time = f"2026-03-02T12:{minute:02}:00Z"
        return self.last.note({"timestamp": time, "path": path, **entry})

    def shown(self) -> Any:
        verdicts = self.last.added(VERDICTS)
        assert verdicts[OTHER] == VERDICTS[OTHER]
        decided = verdicts[LIMITS].decided
        return json.loads(decided) if decided else None


@pytest.fixture
def world() -> World:
    return World()


def test_a_decision_shows_its_time_its_outcome_and_its_object(world: World) -> None:
    assert world.shown() is None
    subject = {"kind": "Pod", "namespace": "team", "name": "web"}
    assert world.decide(1, result="refused", input=subject)
    shown = {"time": "2026-03-02T12:01:00Z", "outcome": "refused", "path": "team/limits/deny"}
    assert world.shown() == {**shown, **subject}


def test_the_status_changes_at_most_once_in_a_period_and_then_shows_the_latest(
    world: World,
) -> None:
    world.decide(1, result="refused")
    assert world.shown()["outcome"] == "refused"
    for minute in range(2, 50):
        world.decide(minute, result="allowed")
        world.now = PERIOD - 1
        assert world.shown()["time"] == "2026-03-02T12:01:00Z"
    world.now = PERIOD
    assert world.shown()["time"] == "2026-03-02T12:49:00Z"


def test_decisions_of_others_are_not_shown_and_admission_requests_are_for_others_to_count(
    world: World,
) -> None:
    assert not world.decide(1, "system/main")
    assert not world.last.note({})
    for path in ("team", "team/limitsa/deny", "limits", "", "x/" * 1000):
        assert world.decide(1, path, result="refused")
    assert world.shown() is None
    world.decide(1, "team/limits")
    assert world.shown()["outcome"] == "undefined"


def test_odd_entries_do_no_harm(world: World) -> None:
    odd_values: tuple[Any, ...] = (None, [], "x", {"kind": ["x"] * 1000})
    for odd in odd_values:
        world.decide(1, input=odd, result=odd, timestamp=odd)
    assert len(json.dumps(world.shown())) < 2000


def test_what_a_policy_decided_is_forgotten_with_it(world: World) -> None:
    world.decide(1, result="refused")
    assert world.shown()
    world.last.added({})
    assert world.shown() is None

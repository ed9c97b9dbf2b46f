"""What a new decision moves, and what it costs before and after."""

from __future__ import annotations

from dataclasses import replace

from placed import placement

from fairlead.placement import changes
from fairlead.placement.changes import Change

WEB = "Deployment shop/web"
ONCE = "Job shop/web"


def test_replicas_move_from_where_they_are_too_many_to_where_they_are_missing() -> None:
    decided = replace(placement({"eu": 1, "us": 2}), costs={"eu": 6.0, "us": 3.0})
    assert changes.between({WEB: {"asia": 4, "eu": 2}}, {WEB: {"asia": 9.0}}, [decided]) == [
        Change(WEB, "asia", "us", 4, cost_before=8.0, cost_after=4.0)
    ]


def test_what_is_new_comes_from_nowhere_and_what_is_too_many_goes_nowhere() -> None:
    assert changes.between({}, {}, [placement({"eu": 1})]) == [
        Change(WEB, None, "eu", 6, None, None)
    ]
    assert changes.between({WEB: {"eu": 5, "us": 4}}, {}, [placement({"eu": 1})]) == [
        Change(WEB, "us", "eu", 1, None, None),
        Change(WEB, "us", None, 3, None, None),
    ]


def test_what_runs_where_it_should_and_what_has_errors_does_not_move() -> None:
    assert changes.between({WEB: {"eu": 6}}, {}, [placement({"eu": 1})]) == []
    failed = placement({}, errors={"no cluster": ["none"]})
    assert changes.between({WEB: {"eu": 6}}, {}, [failed]) == []


def test_costs_of_a_cluster_that_is_excluded_now_are_the_earlier_ones() -> None:
    decided = replace(placement({"us": 1}), costs={"us": 3.0})
    (change,) = changes.between({WEB: {"eu": 6}}, {WEB: {"eu": 5.0, "us": 1.0}}, [decided])
    assert (change.cost_before, change.cost_after) == (5.0, 3.0)
    (change,) = changes.between({WEB: {"eu": 6}}, {}, [decided])
    assert (change.cost_before, change.cost_after) == (None, 3.0)


def test_a_job_starts_only_where_it_is_not() -> None:
    both = placement({"eu": 1, "us": 1}, kind="Job")
    assert changes.between({}, {}, [both]) == [
        Change(ONCE, None, "eu", 3, None, None),
        Change(ONCE, None, "us", 3, None, None),
    ]
    for there in (3, 0):  # it runs, or it has ended
        before = {"eu": there}
        assert changes.between({ONCE: before}, {}, [both]) == [
            Change(ONCE, None, "us", 3, None, None)
        ]
        assert changes.after(both, before) == {"eu": there, "us": 3}
    assert changes.between({ONCE: {"eu": 3, "us": 0}}, {}, [both]) == []


def test_a_job_that_was_divided_otherwise_stays() -> None:
    decided = placement({"eu": 1}, kind="Job")
    for before in ({"us": 6}, {"us": 0}, {"eu": 3}, {"eu": 6, "us": 3}):
        assert changes.between({ONCE: before}, {}, [decided]) == []
        assert changes.after(decided, before) == before


def test_a_job_that_runs_where_it_should_not_is_named_with_the_reason() -> None:
    decided = replace(placement({"eu": 1}, kind="Job"), explanation={"us": "it is cordoned"})
    running = {ONCE: {"asia": 1, "eu": 1, "us": 5, "za": 0}, WEB: {"us": 6}}
    assert changes.staying(running, [decided, placement({"eu": 1})]) == [
        f"{ONCE} stays in asia, as a Job is not moved (asia: the data have no such cluster)",
        f"{ONCE} stays in us, as a Job is not moved (us: it is cordoned)",
    ]
    failed = placement({}, kind="Job", errors={"no cluster": ["none"]})
    assert changes.staying(running, [failed]) == []

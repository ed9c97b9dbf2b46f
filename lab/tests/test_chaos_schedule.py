"""The schedule of faults is random, complete and repeatable."""

from __future__ import annotations

import itertools

import pytest

from lab.chaos import schedule


@pytest.mark.parametrize("seconds", [10, 20, 60, 600])
@pytest.mark.parametrize("seed", range(20))
def test_a_run_sees_every_kind_of_fault_and_ends_in_time(seed: int, seconds: float) -> None:
    episodes = schedule.plan(seed, seconds)
    assert {fault.kind for episode in episodes for fault in episode.faults} == set(schedule.KINDS)
    for episode, following in itertools.pairwise(episodes):
        assert following.at == pytest.approx(episode.at + episode.spacing)
    for episode in episodes:
        assert len({fault.kind for fault in episode.faults}) == len(episode.faults) <= 3
        assert all(fault.after + fault.lasts <= episode.spacing for fault in episode.faults)
        assert all(fault.lasts <= schedule.LONGEST for fault in episode.faults)
    assert episodes[-1].at + episodes[-1].spacing <= seconds


def test_every_kind_comes_once_before_any_comes_again() -> None:
    kinds = [fault.kind for episode in schedule.plan(7, 600) for fault in episode.faults]
    assert sorted(kinds[: len(schedule.KINDS)]) == sorted(schedule.KINDS)
    assert min(kinds.count(kind) for kind in schedule.KINDS) >= 9


def test_the_same_seed_gives_the_same_schedule_and_another_one_another() -> None:
    assert schedule.plan(1, 60) == schedule.plan(1, 60) != schedule.plan(2, 60)


def test_instants_last_no_time_and_the_rest_does() -> None:
    for fault in (fault for episode in schedule.plan(3, 120) for fault in episode.faults):
        is_instant = fault.kind in schedule.INSTANT
        assert (fault.lasts == 0) == (is_instant or fault.kind.startswith("kill"))

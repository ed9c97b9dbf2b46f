"""Moves in steps: what may never happen on the way, whatever runs where, and that they end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.federation import steps

COUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 12))
TARGET = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 12), min_size=1)
SHARES = st.floats(0.01, 1)


@given(COUNTS, TARGET, SHARES)
def test_a_move_ends_at_its_target_and_never_has_fewer_replicas_or_many_more(
    counts: dict[str, int], target: dict[str, int], share: float
) -> None:
    asked = sum(target.values())
    at_once = steps.at_once(asked, share)
    least = min(asked, sum(counts.values()))
    for _ in range(sum(counts.values()) + asked + 2):
        larger = steps.grown(counts, target, asked, at_once)
        started = sum(larger.values()) - sum(counts.values())
        missing = max(0, asked - sum(counts.values()))
        assert all(larger[name] >= count for name, count in counts.items())
        assert 0 <= started <= missing + at_once
        smaller = steps.shrunk(larger, target, asked, ready=larger)
        ended = sum(larger.values()) - sum(smaller.values())
        # What goes was ready elsewhere first, and more than a step goes only of what is too many.
        assert ended <= max(at_once, sum(counts.values()) - asked)
        counts = smaller
        assert sum(counts.values()) >= least
        least = min(asked, sum(counts.values()))
    assert {name: count for name, count in counts.items() if count or name in target} == target


@given(COUNTS, TARGET, st.data())
def test_replicas_that_are_not_ready_go_first(
    counts: dict[str, int], target: dict[str, int], data: st.DataObject
) -> None:
    """So that few that are ready are lost: of two sources, the one with more unready replicas."""
    asked = sum(target.values())
    ready = {name: data.draw(st.integers(0, count)) for name, count in counts.items()}
    smaller = steps.shrunk(counts, target, asked, ready)
    unready = {name: counts[name] - ready[name] for name in steps.sources(counts, target)}
    whole = {name: target.get(name, 0) for name in unready}
    for name in unready:
        for other in unready:
            if unready[name] > unready[other] and smaller[other] < counts[other]:
                assert smaller[name] == whole[name]


def test_the_share_is_rounded_down_and_one_at_least() -> None:
    assert [steps.at_once(asked, 0.25) for asked in (0, 1, 4, 7, 8, 100)] == [1, 1, 1, 1, 2, 25]
    assert steps.at_once(10, 0.1) == 1
    assert steps.at_once(30, 0.1) == 3  # in floats, 30 * 0.1 is a little more than 3
    assert steps.at_once(6, 1) == 6


def test_what_is_new_starts_at_once() -> None:
    assert steps.grown({}, {"a": 5, "b": 3}, 8, 1) == {"a": 5, "b": 3}
    assert steps.grown({}, {"a": 0}, 0, 1) == {"a": 0}


def test_a_cluster_that_takes_nothing_leaves_the_others_what_is_asked() -> None:
    """Of 6 in a, b takes its 3; the 3 of c, which does not answer, stay in a."""
    counts = {"a": 6}
    for _ in range(5):
        larger = steps.grown(counts, {"b": 3}, 6, 1)
        counts = steps.shrunk(larger, {"b": 3, "c": 3}, 6, larger)
    assert counts == {"a": 3, "b": 3}

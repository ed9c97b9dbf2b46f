"""Hung threads of the sidecar are detected, for its liveness probe."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from fairlead.sync import hung_threads, loops
from fairlead.sync.hung_threads import ThreadProgress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds that ThreadProgress reads."""
    now = [1000.0]
    monkeypatch.setattr("fairlead.sync.hung_threads.time.monotonic", lambda: now[0])
    return now


def turned(made: ThreadProgress, name: str) -> None:
    thread = Thread(target=made.turn, name=name)
    thread.start()
    thread.join()


def test_a_thread_that_does_not_go_on_is_told_and_the_others_are_not(clock: list[float]) -> None:
    made = ThreadProgress(["namespaces", "reconcile"])
    clock[0] += hung_threads.HUNG
    assert made.hung() == []
    turned(made, "reconcile")
    clock[0] += 1
    assert made.hung() == ["namespaces has made no progress for 121 s"]
    turned(made, "namespaces")
    assert made.hung() == []


def test_a_thread_of_another_name_is_none_of_these(clock: list[float]) -> None:
    made = ThreadProgress(["reconcile"])
    clock[0] += hung_threads.HUNG + 1
    turned(made, "look-up")
    assert made.hung() == ["reconcile has made no progress for 121 s"]


def test_a_loop_turns_at_each_step_also_at_those_that_fail() -> None:
    turns, stop = list[str](), Event()

    def step() -> None:
        turns.append("step")
        if len(turns) > 5:
            stop.set()
        raise OSError

    loops.repeat(step, stop, lambda _: None, turn=lambda: turns.append("turn"), longest=0.01)
    assert turns[:4] == ["turn", "step", "turn", "step"]

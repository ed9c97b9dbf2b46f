"""Work is done when it is due by the wall clock, one at a time for each key."""

from __future__ import annotations

import time
from collections.abc import Iterator
from queue import Empty, Queue
from threading import Event, Lock

import pytest

from fairlead.access.bindings import Key
from fairlead.access.due_work import DueWork
from fairlead.access.instants import SECOND
from fairlead.common import waiting
from fairlead.common.errors import FairleadError

HOUR = 3600 * SECOND
LIMIT = 30.0
"""Seconds: what happens at all happens long before."""
A, B = ("shop", "a"), ("shop", "b")


class Clock:
    """The wall clock, which a test sets."""

    def __init__(self) -> None:
        self.offset = 0
        self._now = time.time_ns

    def __call__(self) -> int:
        return self._now() + self.offset


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("fairlead.access.due_work.time.time_ns", clock)
    return clock


@pytest.fixture
def stop() -> Iterator[Event]:
    stop = Event()
    yield stop
    stop.set()


def test_work_is_done_in_the_order_in_which_it_is_due(stop: Event) -> None:
    done: Queue[Key] = Queue()
    table = DueWork("testing", lambda key: done.put(key), threads=1, longest=1.0)
    now = time.time_ns()
    table.put(A, now + SECOND // 5)
    table.put(B, now + SECOND // 10)
    table.put(B, now + HOUR)  # the earlier time stays
    table.run(stop)
    assert [done.get(timeout=LIMIT), done.get(timeout=LIMIT)] == [B, A]
    assert time.time_ns() >= now + SECOND // 5
    assert len(table) == 0


def test_what_is_due_comes_before_what_was_put_later(stop: Event) -> None:
    done: Queue[Key] = Queue()
    table = DueWork("testing", lambda key: done.put(key), threads=1, longest=1.0)
    table.put(A, time.time_ns())
    table.put(B)
    table.run(stop)
    assert [done.get(timeout=LIMIT), done.get(timeout=LIMIT)] == [A, B]


def test_what_is_due_for_many_of_a_namespace_delays_another_by_one(stop: Event) -> None:
    done: Queue[Key] = Queue()
    table = DueWork("testing", lambda key: done.put(key), threads=1, longest=1.0)
    now = time.time_ns()
    many = [("crowd", str(number)) for number in range(1_000)]
    for number, key in enumerate(many):
        table.put(key, now - SECOND + number)
    table.put(A, now)
    table.put(B, now)
    table.run(stop)
    assert [done.get(timeout=LIMIT) for _ in range(4)] == [many[0], A, many[1], B]


def test_times_that_hold_no_more_are_not_kept() -> None:
    table = DueWork("testing", lambda _: None, threads=1, longest=1.0)
    for number in range(100_000):
        table.put(A, HOUR * 10**6 - number)
    assert len(table) == 1
    assert len(table._heap) < 2_000


def test_a_clock_that_is_set_forward_makes_work_due(stop: Event, clock: Clock) -> None:
    done: Queue[Key] = Queue()
    table = DueWork("testing", lambda key: done.put(key), threads=2, longest=1.0)
    table.put(A, clock() + HOUR // 2)
    table.run(stop)
    with pytest.raises(Empty):
        done.get(timeout=0.2)
    clock.offset = HOUR
    assert done.get(timeout=LIMIT) == A


def test_what_comes_back_is_due_again_and_what_fails_is_tried_again(stop: Event) -> None:
    done: Queue[int] = Queue()

    def work(key: Key) -> int | None:
        done.put(done.qsize())
        match done.qsize():
            case 1:
                return time.time_ns() + SECOND // 10
            case 2 | 3:
                raise FairleadError("away")
            case 4:
                raise KeyError("a mistake")
        return None

    table = DueWork("testing", work, threads=2, longest=0.1)
    table.put(A)
    table.run(stop)
    deadline = time.monotonic() + LIMIT
    while done.qsize() < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert done.qsize() == 5


def test_one_key_is_never_worked_on_twice_at_a_time(stop: Event) -> None:
    lock, enough = Lock(), Event()
    overlapping: list[Key] = []
    count = 0

    def work(key: Key) -> int | None:
        nonlocal count
        if not lock.acquire(blocking=False):
            overlapping.append(key)
            return None
        time.sleep(0.001)
        count += 1
        if count >= 50:
            enough.set()
        lock.release()
        return 0

    table = DueWork("testing", work, threads=4, longest=1.0)
    table.run(stop)
    while not enough.is_set():
        table.put(A)
        time.sleep(0.0005)
    assert overlapping == []


def test_what_fails_again_and_again_is_told_until_it_succeeds(stop: Event) -> None:
    attempts: Queue[int] = Queue()
    broken = Event()
    broken.set()

    def work(key: Key) -> int | None:
        if broken.is_set():
            raise FairleadError(f"{key[1]} is refused")
        attempts.put(1)
        return None

    table = DueWork("ending", work, threads=1, longest=0.01)
    assert table.trouble is None
    table.put(A)
    table.put(("", "b"))
    table.run(stop)
    waiting.until(lambda: "1 more" in (table.trouble or ""), deadline=LIMIT, what="both fail")
    assert table.trouble in (
        "ending shop/a fails, and 1 more: a is refused",
        "ending b fails, and 1 more: b is refused",
    )
    broken.clear()
    waiting.until(lambda: table.trouble is None, deadline=LIMIT, what="both succeed")
    assert attempts.qsize() == 2


def test_work_that_failed_can_be_tried_before_its_pause_ends(
    stop: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.access.due_work.AGAIN", 3600.0)
    attempts: Queue[Key] = Queue()
    succeeding = Event()

    def work(key: Key) -> int | None:
        attempts.put(key)
        if not succeeding.is_set():
            raise FairleadError("away")
        return None

    table = DueWork("asking about", work, threads=1, longest=3600.0)
    table.put(A)
    table.put(B)
    table.run(stop)
    assert [attempts.get(timeout=LIMIT), attempts.get(timeout=LIMIT)] == [A, B]
    succeeding.set()
    table.hurry(1)
    assert attempts.get(timeout=LIMIT) == A
    table.hurry()
    assert attempts.get(timeout=LIMIT) == B
    with pytest.raises(Empty):
        attempts.get(timeout=0.5)

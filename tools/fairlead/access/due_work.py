"""Does work when it is due by the wall clock, in some threads, one at a time for each key. Of all
that is due, namespaces take turns: what is due in one for a thousand keys at once delays another by
one of these.

A timer of the operating system would count the seconds that pass, and so miss a clock that is set:
here each thread compares the wall clock at least once a second.
"""

from __future__ import annotations

import heapq
import logging
import random
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from threading import Condition, Event, Thread

from fairlead.access.bindings import Key
from fairlead.access.instants import SECOND
from fairlead.common.errors import FairleadError

log = logging.getLogger(__name__)

LOOK = 1.0
"""The most seconds between two comparisons with the wall clock."""
AGAIN = 0.2
"""Seconds of the first pause before failed work is tried again. It doubles with each failure in a
row, and is cut by a random part, so that not everything is tried at once."""

_SPARE = 1_000
"""Entries of the heap beyond what is due, before those that hold no more are removed."""
_LASTING = 3
"""Failures in a row that are more than a moment's."""

Work = Callable[[Key], int | None]
"""Does the work for a key, and returns when it is due next (nanoseconds since the epoch), None for
never. If it raises, it is tried again."""


class DueWork:
    """The work that is due, by key. Each key has one time: the earliest that it was put at."""

    def __init__(self, name: str, work: Work, *, threads: int, longest: float) -> None:
        """`longest` is the longest pause after a failure, in seconds."""
        self._name = name
        self._work = work
        self._threads = threads
        self._longest = longest
        self._changed = Condition()
        self._heap: list[tuple[int, Key]] = []
        self._due: dict[Key, int] = {}
        self._turns: OrderedDict[str, deque[Key]] = OrderedDict()  # what is due, by namespace
        self._busy: set[Key] = set()
        self._failures: dict[Key, tuple[int, str]] = {}

    def put(self, key: Key, at: int | None = None) -> None:
        """Have the work done for this key at the time (nanoseconds since the epoch) at the latest;
        by default now, after all that is due already.
        """
        at = time.time_ns() if at is None else at
        with self._changed:
            if at < self._due.get(key, at + 1):
                self._due[key] = at
                if key not in self._busy:
                    self._push(at, key)

    def hurry(self, limit: int | None = None) -> None:
        """Try work that failed again now: that of at most so many keys, by default of all."""
        with self._changed:
            failed = list(self._failures)[:limit]
        for key in failed:
            self.put(key)

    @property
    def trouble(self) -> str | None:
        """Which work has failed several times in a row, and why; None if none has."""
        with self._changed:
            lasting = {
                key: reason for key, (times, reason) in self._failures.items() if times >= _LASTING
            }
        if not lasting:
            return None
        key, reason = next(iter(lasting.items()))
        remainder = f", and {len(lasting) - 1} more" if len(lasting) > 1 else ""
        return f"{self._name} {'/'.join(filter(None, key))} fails{remainder}: {reason}"

    def __len__(self) -> int:
        with self._changed:
            return len(self._due)

    def run(self, stop: Event) -> list[Thread]:
        """Start the threads, which end soon after `stop` is set."""
        threads = [
            Thread(target=self._follow, args=(stop,), name=f"{self._name}-{number}", daemon=True)
            for number in range(self._threads)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _follow(self, stop: Event) -> None:
        while not stop.is_set():
            key = self._next()
            if key is not None:
                self._done(key, self._tried(key))

    def _next(self) -> Key | None:
        """A key whose work is due, after at most LOOK seconds; None if nothing was."""
        with self._changed:
            seconds, now = self._give_turns(), time.time_ns()
            while self._turns:
                namespace, keys = self._turns.popitem(last=False)
                key = keys.popleft()
                if keys:
                    self._turns[namespace] = keys
                if self._due.get(key, now + 1) <= now and key not in self._busy:
                    del self._due[key]
                    self._busy.add(key)
                    return key
            self._changed.wait(seconds)
            return None

    def _give_turns(self) -> float:
        """Have what is due by now take its turn. Returns the seconds until more is, at most
        LOOK.
        """
        while self._heap:
            at, key = self._heap[0]
            if self._due.get(key) == at and (seconds := (at - time.time_ns()) / SECOND) > 0:
                return min(LOOK, seconds)
            heapq.heappop(self._heap)
            if self._due.get(key) == at:  # it was not put at another time since
                self._turns.setdefault(key[0], deque()).append(key)
        return LOOK

    def _push(self, at: int, key: Key) -> None:
        heapq.heappush(self._heap, (at, key))
        if len(self._heap) > 2 * len(self._due) + _SPARE:  # of times that hold no more
            self._heap = [(at, key) for key, at in self._due.items() if key not in self._busy]
            heapq.heapify(self._heap)
        self._changed.notify()

    def _tried(self, key: Key) -> int | None:
        try:
            next_time = self._work(key)
        except Exception as error:
            failures = self._failures.get(key, (0, ""))[0] + 1
            with self._changed:
                self._failures[key] = failures, str(error) or type(error).__name__
            if not isinstance(error, FairleadError):
                log.error("%s %s failed", self._name, "/".join(key), exc_info=error)
            elif failures == 1:
                log.warning("%s %s: %s", self._name, "/".join(key), error)
            pause = min(self._longest, AGAIN * 2 ** min(failures - 1, 16))
            pause *= random.uniform(0.5, 1.0)  # noqa: S311 - spreads requests, keeps no secret
            return time.time_ns() + int(pause * SECOND)
        with self._changed:
            self._failures.pop(key, None)
        return next_time

    def _done(self, key: Key, next_time: int | None) -> None:
        with self._changed:
            self._busy.discard(key)
            times = [at for at in (next_time, self._due.pop(key, None)) if at is not None]
            if times:
                self._due[key] = at = min(times)
                self._push(at, key)

"""Whether the sidecar's threads make progress; its liveness probe asks for this."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import current_thread

HUNG = 120.0
"""Seconds without a turn after which a thread hangs; the longest that one waits for an answer is
70 (watch.SECONDS)."""


class Pulse:
    """When each thread of a known name last went on; the names are known before the threads are
    started.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        now = time.monotonic()
        self._turned = dict.fromkeys(names, now)

    def turn(self) -> None:
        """Note that the calling thread goes on; one that is not watched is of no interest."""
        name = current_thread().name
        if name in self._turned:
            self._turned[name] = time.monotonic()

    def hung(self) -> list[str]:
        """The threads that do not go on, and for how long; one that has ended does not either."""
        now = time.monotonic()
        silent = {name: now - turned for name, turned in self._turned.items()}
        return [
            f"{name} has not gone on for {age:.0f} s" for name, age in silent.items() if age > HUNG
        ]

"""Detects threads of the sidecar that make no progress, for its liveness probe."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import current_thread

HUNG = 120.0
"""Seconds without a turn after which a thread counts as hung. The longest wait for an answer takes
70 s (watches.SECONDS)."""


class ThreadProgress:
    """When each named thread last made progress. The names are given before the threads start."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        now = time.monotonic()
        self._turned = dict.fromkeys(names, now)

    def turn(self) -> None:
        """Record that the calling thread makes progress. Other threads than the named ones are
        ignored.
        """
        name = current_thread().name
        if name in self._turned:
            self._turned[name] = time.monotonic()

    def hung(self) -> list[str]:
        """The threads that make no progress, each with the time; also threads that have ended."""
        now = time.monotonic()
        silent = {name: now - turned for name, turned in self._turned.items()}
        return [
            f"{name} has made no progress for {age:.0f} s"
            for name, age in silent.items()
            if age > HUNG
        ]

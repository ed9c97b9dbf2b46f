"""The reviews that wait until both engines are asked about them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Condition
from typing import Any

MOST = 2000
"""The most reviews that wait."""
LARGEST = 32 * 1024 * 1024
"""The most bytes of all reviews that wait, as API servers sent them."""
AGAIN = 3.0
"""Seconds until the engines are asked again whose answers differ. Within these, each of them has
learned of a change of a namespace."""
SETTLED = 60.0
"""Seconds within which both engines decide by new policies. Until then, differences are only asked
about again when this time is over."""


@dataclass(frozen=True)
class Waiting:
    """A review about one intent, with its size in bytes. `again` is true if the engines were asked
    before.
    """

    intent: str
    review: Any
    size: int
    again: bool = False
    due: float = 0.0
    """When it may be asked about, by time.monotonic."""


class Queue:
    """Waiting reviews, in the order in which they are due. What does not fit is not taken."""

    def __init__(self, *, most: int = MOST, largest: int = LARGEST) -> None:
        self._most, self._largest = most, largest
        self._new: deque[Waiting] = deque()
        self._again: deque[Waiting] = deque()
        self._size = 0
        self._changed = Condition()

    def put(self, waiting: Waiting) -> bool:
        """Add a review; False if it does not fit."""
        with self._changed:
            count = len(self._new) + len(self._again)
            if count >= self._most or self._size + waiting.size > self._largest:
                return False
            (self._again if waiting.again else self._new).append(waiting)
            self._size += waiting.size
            self._changed.notify()
            return True

    def take(self, most: int, seconds: float) -> Sequence[Waiting]:
        """Up to `most` reviews that are due, those that wait again first. Waits up to `seconds` for
        the first one.
        """
        with self._changed:
            if not self._new and not self._due():
                self._changed.wait(seconds)
            taken: list[Waiting] = []
            while len(taken) < most and (self._due() or self._new):
                taken.append((self._again if self._due() else self._new).popleft())
            self._size -= sum(waiting.size for waiting in taken)
            return taken

    def _due(self) -> bool:
        return bool(self._again) and self._again[0].due <= time.monotonic()

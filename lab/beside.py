"""A thread that follows something while a block goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Event, Thread
from types import TracebackType
from typing import Self


class Beside(ABC):
    """`_follow` runs in a thread of its own during the block, and returns soon after `_ended` is
    set.
    """

    def __init__(self, *, awaited: bool = True) -> None:
        """`awaited` says whether the block ends only when the thread has."""
        self._awaited = awaited
        self._ended = Event()
        self._thread = Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._awaited:
            self._thread.join()
        if error is None:
            self._finish()

    def _finish(self) -> None:  # noqa: B027 - most have nothing to do then
        """What is done once after a block that has not failed."""

    @abstractmethod
    def _follow(self) -> None: ...

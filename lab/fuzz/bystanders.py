"""Clients that send ordinary requests during an attack, and record how long each waits and whether
the answer is right."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

Ask = Callable[[], str]
"""Sends one request and returns what is wrong with the answer, "" if nothing. Raises OSError if
there is no answer."""

_PAUSE = 0.02  # seconds between two requests of one bystander


@dataclass
class Bystander:
    """A client that repeats one ordinary request."""

    name: str
    ask: Ask
    waits: list[float] = field(default_factory=list)
    """The seconds of each request since the last `settle`."""
    refused: list[str] = field(default_factory=list)
    """What was wrong with those of them that got a wrong answer."""
    quiet: list[float] = field(default_factory=list)
    """The seconds of each request before the first attack."""
    settled: list[float] = field(default_factory=list)
    settled_refused: int = 0

    def once(self) -> None:
        """Send one request."""
        began = time.monotonic()
        try:
            wrong = self.ask()
        except OSError as error:
            wrong = f"no answer: {error!r}"
        self.waits.append(time.monotonic() - began)
        if wrong:
            self.refused.append(wrong)

    def settle(self) -> None:
        """Mark all requests so far as checked. They stay in the figures."""
        self.settled += self.waits
        self.settled_refused += len(self.refused)
        self.waits, self.refused = [], []

    def beside(self, stop: Event) -> Thread:
        """Start a thread that sends requests until `stop` is set."""

        def work() -> None:
            while not stop.wait(_PAUSE):
                self.once()

        thread = Thread(target=work, name=self.name, daemon=True)
        thread.start()
        return thread

    def figures(self) -> dict[str, Any]:
        """{bystander, asked, refused, p50, max, quiet}: times in ms; quiet is the median before the
        first attack.
        """
        waits = [*self.settled, *self.waits]
        return {
            "bystander": self.name,
            "asked": len(waits),
            "refused": self.settled_refused + len(self.refused),
            "p50": _milliseconds(statistics.median(waits)) if waits else None,
            "max": _milliseconds(max(waits)) if waits else None,
            "quiet": _milliseconds(statistics.median(self.quiet)) if self.quiet else None,
        }


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)

"""One process with several parts, each of which works by itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Event, Thread
from typing import Any, Protocol

from fairlead.common.errors import FairleadError

log = logging.getLogger(__name__)

_ENDING = 10.0
"""Seconds for the parts to end, so that another controller takes over at once."""


class Part(Protocol):
    """What works in the process; `name` is that of its thread, and of its part of /health."""

    name: str

    def run(self, stop: Event) -> None:
        """Work until `stop` is set."""

    def health(self) -> dict[str, Any]:
        """{"reasons", ...}: why it cannot do all of its work, and what else is to be told."""


class Process:
    """Runs the parts, each in a thread."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def health(self) -> dict[str, Any]:
        """{"healthy", "reasons", ...}: the reasons of all parts, and the health of each under its
        name.
        """
        healths = {part.name: part.health() for part in self._parts}
        reasons = [reason for health in healths.values() for reason in health["reasons"]]
        return {"healthy": not reasons, "reasons": reasons, **healths}

    def run(self, stop: Event) -> None:
        """Work until `stop` is set. Raises FairleadError if a part ends before: whatever restarts
        the process starts all of them anew.
        """
        failed: list[str] = []

        def work(part: Part) -> None:
            try:
                part.run(stop)
            except Exception:
                log.exception("%s failed", part.name)
            if not stop.is_set():
                failed.append(part.name)
                stop.set()

        threads = [Thread(target=work, args=(part,), name=part.name) for part in self._parts]
        for thread in threads:
            thread.daemon = True
            thread.start()
        stop.wait()
        for thread in threads:
            thread.join(_ENDING)
        if failed:
            raise FairleadError(f"{', '.join(failed)} ended: see the log")

"""Receives the decisions that OPA uploads in batches, counts them for Prometheus, and prints them
to the console.

OPA's plugin reduces them first; see tools/plugin/shown.go. OPA sends a batch again until it gets an
answer, so a batch is counted twice if its answer comes too late. Source:
openpolicyagent.org/docs/management-decision-logs.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from fairlead.common import texts
from fairlead.opa import decision_entries
from fairlead.sync import decision_batches
from fairlead.sync.metrics import Metrics

log = logging.getLogger(__name__)

LARGEST = 1024 * 1024
"""The most bytes of a batch as it is sent. OPA's have 32 KiB."""

BUDGETS: Mapping[str, tuple[int, int]] = {
    "refused": (128 * 1024, 4 * 1024 * 1024),
    "admitted": (128 * 1024, 4 * 1024 * 1024),
    "failed": (8 * 1024, 256 * 1024),
    "malformed": (8 * 1024, 256 * 1024),
}
"""By kind of decision: characters a second that are written on average, and the most at once.

A line has one or two thousand characters. Each kind has its own budget, so that a flood of one kind
does not hide refusals: anyone who reaches OPA can send it reviews that are `malformed`, or to which
OPA has no answer (`failed`), as fast as OPA decides.
"""

_PAUSE = 10.0  # seconds between two warnings about decisions that were not written


class Decisions:
    """Takes decisions and passes each to `write` as a line of JSON, within BUDGETS. Safe for
    threads.
    """

    def __init__(
        self,
        metrics: Metrics,
        write: Callable[[str], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._write = write
        self._lock = Lock()
        self._clock = clock
        self._budgets = {kind: _Budget(*sizes, clock()) for kind, sizes in BUDGETS.items()}
        self._unwritten: Counter[str] = Counter()
        self._last: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._warned_at = clock() - _PAUSE

    def take(self, batch: bytes) -> None:
        """Take a JSON array of decisions that is packed with gzip. Raises ValueError if `batch` is
        not such an array; then no decision was taken.
        """
        # Parse it twice, first only to validate it, so that the decisions need not be kept.
        for _ in decision_batches.read(batch):
            pass
        with self._lock:
            for decision in decision_batches.read(batch):
                self._take(decision)
            self._warn()

    def by_intent(self) -> dict[str, dict[str, Any]]:
        """What the policies of each intent decided since the start: {"counts": {outcome: number},
        "last": {time, outcome, kind, namespace, name}}, the last one without what is not known.
        """
        with self._lock:
            last, counts = dict(self._last), self._metrics.decided()
        return {
            intent: {"counts": counts[intent], "last": _shown(*decision)}
            for intent, decision in last.items()
            if intent
        }

    def _take(self, decision: decision_batches.Decision) -> None:
        if decision.text is None or decision.entry is None:
            self._omit("unread")
            return
        pairs = list(decision_entries.outcomes(decision.entry))
        for intent, outcome in pairs:
            self._metrics.decisions.labels(intent, outcome).inc()
            self._last[intent] = outcome, decision.entry
        if self._write:
            line = _line(decision.text, decision.entry)
            kind = _kind(pairs)
            if self._budgets[kind].spend(len(line), self._clock()):
                self._write(line)
            else:
                self._omit(kind)

    def _omit(self, kind: str) -> None:
        self._metrics.unwritten.labels(kind).inc()
        self._unwritten[kind] += 1

    def _warn(self) -> None:
        """Log how many decisions were not written, at most once every _PAUSE seconds."""
        if self._unwritten and self._clock() - self._warned_at >= _PAUSE:
            counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self._unwritten.items()))
            log.warning(
                "decisions left out of the log, because they are too many or too large: %s", counts
            )
            self._unwritten.clear()
            self._warned_at = self._clock()


class _Budget:
    """A token bucket: `rate` characters a second, of which up to `most` are saved."""

    def __init__(self, rate: int, size: int, now: float) -> None:
        self._rate, self._most = rate, size
        self._left, self._at = float(size), now

    def spend(self, size: int, now: float) -> bool:
        """Whether `size` characters may be written at the time `now`."""
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if size > self._left:
            return False
        self._left -= size
        return True


def _kind(pairs: list[tuple[str, str]]) -> str:
    """The key of BUDGETS for a decision with these outcomes."""
    if ("", "failed") in pairs:
        return "failed"
    if ("", "denied") in pairs:  # not by an intent: the input was not a readable review
        return "malformed"
    return (
        "refused"
        if any(intent and outcome in ("denied", "warned") for intent, outcome in pairs)
        else "admitted"
    )


def _shown(outcome: str, entry: Mapping[str, Any]) -> dict[str, str]:
    request = decision_entries.request(entry)
    kind = decision_entries.mapping(request.get("kind")).get("kind")
    subject = {"kind": kind, "namespace": request.get("namespace"), "name": request.get("name")}
    return {
        "time": texts.time(decision_entries.time(entry)),
        "outcome": outcome,
        **{key: str(value) for key, value in subject.items() if value},
    }


def _line(text: str, entry: dict[str, Any]) -> str:
    """The decision as one line of JSON: the text as it was sent, if it is one line of ASCII."""
    single = text.isascii() and "\n" not in text and "\r" not in text
    return (text if single else json.dumps(entry, separators=(",", ":"))) + "\n"

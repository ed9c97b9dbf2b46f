"""Receives the decisions that OPA uploads in batches, counts them for Prometheus, and prints them
to the console.

OPA masks them first, see policies/log.rego. It sends a batch again until it is answered, so one
that is answered too late is counted twice. Source:
openpolicyagent.org/docs/management-decision-logs.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any

from fairlead.sync import batches
from fairlead.sync.metrics import Metrics

log = logging.getLogger(__name__)

LARGEST = 1024 * 1024
"""Bytes of a batch as it is sent; OPA makes them of 32 KiB."""

BUDGETS: Mapping[str, tuple[int, int]] = {
    "refused": (128 * 1024, 4 * 1024 * 1024),
    "admitted": (128 * 1024, 4 * 1024 * 1024),
    "failed": (8 * 1024, 256 * 1024),
    "malformed": (8 * 1024, 256 * 1024),
}
"""By kind of decision: characters that are written in a second, and at once after a time of rest.

A line has one or two thousand. Each kind has a budget of its own: who reaches OPA may send reviews
that say nothing (`malformed`) or that have no answer (`failed`) as fast as OPA decides, and must
not so hide what was refused.
"""

_PAUSE = 10.0  # seconds between two words about what was not written

# What policies/main.rego writes into audit annotations, up to the colon.
_OUTCOMES = {"refused": "denied", "would be refused": "warned", "placed": "placed"}


class Decisions:
    """Takes decisions from any number of threads; `write` gets each as a line of JSON, as far as
    BUDGETS allow.
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
        self._told = clock() - _PAUSE

    def take(self, batch: bytes) -> None:
        """Take over a JSON array of decisions, as gzip. Raises ValueError where it is none; then
        none was taken.
        """
        # the whole of it is looked at before any is taken, and never kept
        for _ in batches.read(batch):
            pass
        with self._lock:
            for decision in batches.read(batch):
                self._take(decision)
            self._tell()

    def _take(self, decision: batches.Decision) -> None:
        if decision.text is None or decision.entry is None:
            self._omit("unread")
            return
        pairs = list(outcomes(decision.entry))
        for intent, outcome in pairs:
            self._metrics.decisions.labels(intent, outcome).inc()
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

    def _tell(self) -> None:
        """Say how many decisions were not written, now and then."""
        if self._unwritten and self._clock() - self._told >= _PAUSE:
            counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self._unwritten.items()))
            log.warning(
                "decisions that are not in the log, too many at a time or too large: %s", counts
            )
            self._unwritten.clear()
            self._told = self._clock()


class _Budget:
    """What may be written: `rate` characters a second, up to `most` of them saved."""

    def __init__(self, rate: int, most: int, now: float) -> None:
        self._rate, self._most = rate, most
        self._left, self._at = float(most), now

    def spend(self, size: int, now: float) -> bool:
        """Whether `size` characters may be written at the time `now`."""
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if size > self._left:
            return False
        self._left -= size
        return True


def outcomes(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What became of one request: (intent, outcome) for each intent that had a say.

    The outcome is `placed`, `warned` or `denied`. Where no intent tells any, the intent is "" and
    the outcome `allowed`, `warned` or `denied`, or `failed` where OPA had no answer, which an API
    server takes for a refusal.
    """
    result = entry.get("result")
    response = result.get("response") if isinstance(result, dict) else None
    if not isinstance(response, dict):
        yield "", "failed"
        return
    by_intent = response.get("auditAnnotations") or {}
    for intent, annotation in by_intent.items():
        yield intent, _OUTCOMES.get(str(annotation).partition(":")[0], "allowed")
    if not by_intent:
        allowed = "warned" if response.get("warnings") else "allowed"
        yield "", allowed if response.get("allowed") is True else "denied"


def _kind(pairs: list[tuple[str, str]]) -> str:
    """Which of BUDGETS a decision belongs to, by its outcomes."""
    if ("", "failed") in pairs:
        return "failed"
    if ("", "denied") in pairs:  # by no intent: it was no review
        return "malformed"
    return (
        "refused"
        if any(intent and outcome in ("denied", "warned") for intent, outcome in pairs)
        else "admitted"
    )


def _line(text: str, entry: dict[str, Any]) -> str:
    """The decision as one line, as it was sent where that is one in every encoding."""
    single = text.isascii() and "\n" not in text and "\r" not in text
    return (text if single else json.dumps(entry, separators=(",", ":"))) + "\n"

"""OPA's decisions, which it uploads in batches: counted for Prometheus, and passed on to the console.

OPA masks them first, see policies/log.rego. It sends a batch again until it is answered, so one that is answered too
late is counted twice. Source: openpolicyagent.org/docs/management-decision-logs.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

from fairlead.sync.metrics import Metrics

LARGEST = 1024 * 1024
"""Bytes of a batch as it is sent; OPA makes them of 32 KiB."""

_UNPACKED = 32 * LARGEST
_GZIP = zlib.MAX_WBITS | 16

# What policies/main.rego writes into audit annotations, up to the colon.
_OUTCOMES = {"refused": "denied", "would be refused": "warned", "placed": "placed"}


class Decisions:
    """Takes decisions from any number of threads; `write` gets each as a line of JSON."""

    def __init__(self, metrics: Metrics, write: Callable[[str], None] | None) -> None:
        self._metrics = metrics
        self._write = write
        self._lock = Lock()

    def take(self, batch: bytes) -> None:
        """Take over a JSON array of decisions, as gzip. Raises ValueError where it is none; then none was taken."""
        entries = _entries(batch)
        for entry in entries:
            for intent, outcome in outcomes(entry):
                self._metrics.decisions.labels(intent, outcome).inc()
            if self._write:
                with self._lock:
                    self._write(json.dumps(entry, separators=(",", ":")) + "\n")


def outcomes(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What became of one request: (intent, outcome) for each intent that had a say.

    The outcome is `placed`, `warned` or `denied`. Where no intent tells any, the intent is "" and the outcome
    `allowed`, `warned` or `denied`, or `failed` where OPA had no answer, which an API server takes for a refusal.
    """
    result = entry.get("result")
    response = result.get("response") if isinstance(result, dict) else None
    if not isinstance(response, dict):
        yield "", "failed"
        return
    told = response.get("auditAnnotations") or {}
    for intent, said in told.items():
        yield intent, _OUTCOMES.get(str(said).partition(":")[0], "allowed")
    if not told:
        allowed = "warned" if response.get("warnings") else "allowed"
        yield "", allowed if response.get("allowed") is True else "denied"


def _entries(batch: bytes) -> list[dict[str, Any]]:
    unpacker = zlib.decompressobj(_GZIP)
    try:
        text = unpacker.decompress(batch, _UNPACKED)
        entries = json.loads(text) if unpacker.eof else None
    except (zlib.error, ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("not a JSON array of decisions, as gzip")
    return entries

"""The metrics of all workers of `fairlead serve`, for Prometheus.

The workers write them into files of the folder PROMETHEUS_MULTIPROC_DIR, and each shows the sum.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Prometheus' client reads it when it is imported."""

DECISIONS = Counter(
    "fairlead_serve_decisions",
    "Reviews, by outcome: allowed, patched, refused, or failed without an answer.",
    ["outcome"],
)
UNREADABLE = Counter(
    "fairlead_serve_unreadable", "Requests without a review, by the status of the answer.", ["code"]
)
SECONDS = Histogram("fairlead_serve_decision_seconds", "Time of a decision, with its lookup.")


class _Watched:
    """The counters of the watches of the API server."""

    relists = Counter("fairlead_serve_relists", "Complete lists read from the API server.")
    errors = Counter("fairlead_serve_errors", "Failed requests, by peer.", ["peer"])
    lookups = Counter(
        "fairlead_serve_lookups",
        "Namespaces that the API server was asked about, by outcome: found, absent or failed.",
        ["outcome"],
    )


WATCHED = _Watched()


def text() -> bytes:
    """The metrics of all workers, in the exposition format 0.0.4."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)

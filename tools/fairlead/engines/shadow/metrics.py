"""The metrics of `fairlead shadow`, for Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, generate_latest

REVIEWS = Counter(
    "fairlead_shadow_reviews",
    "Reviews, by intent and outcome: agreed; allowed, object or warnings for what differs; failed "
    "if an engine gave no answer; skipped if there were too many.",
    ["intent", "outcome"],
)


class _Watched:
    """The counters of the watches of the API server."""

    relists = Counter("fairlead_shadow_relists", "Complete lists read from the API server.")
    errors = Counter("fairlead_shadow_errors", "Failed requests, by peer.", ["peer"])
    lookups = Counter(
        "fairlead_shadow_lookups",
        "Namespaces that the API server was asked about, by outcome: found, absent or failed.",
        ["outcome"],
    )


WATCHED = _Watched()


def text() -> bytes:
    """The metrics, in the exposition format 0.0.4."""
    return generate_latest()

"""The controller's metrics."""

from __future__ import annotations

from functools import partial
from threading import Event

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fairlead.access.state import State

_LATE = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)  # seconds


class Metrics:
    """Counts what the controller does, and how late it was."""

    def __init__(self, registry: CollectorRegistry, state: State, leading: Event) -> None:
        self.relists = Counter(
            "fairlead_access_lists", "Complete lists of a kind.", registry=registry
        )
        self.errors = Counter(
            "fairlead_access_errors",
            "Failed requests of watches, by peer.",
            ["peer"],
            registry=registry,
        )
        self._changes = Counter(
            "fairlead_access_changes", "Bindings made and taken away.", ["what"], registry=registry
        )
        self._late = Histogram(
            "fairlead_access_late_seconds",
            "Seconds after validUntil when a binding was gone.",
            buckets=_LATE,
            registry=registry,
        )
        for change in ("begin", "end"):
            self._changes.labels(change)
        leads = Gauge("fairlead_access_leading", "Whether this replica leads.", registry=registry)
        leads.set_function(leading.is_set)
        for name, parents in (("transient_bindings", True), ("bindings", False)):
            gauge = Gauge(f"fairlead_access_{name}", "How many there are.", registry=registry)
            gauge.set_function(partial(state.count, parents=parents))

    def granted(self) -> None:
        """A binding was made."""
        self._changes.labels("begin").inc()

    def ended(self) -> None:
        """A binding was taken away."""
        self._changes.labels("end").inc()

    def late(self, seconds: float) -> None:
        """A binding was gone these seconds after its end."""
        self._late.observe(max(0.0, seconds))

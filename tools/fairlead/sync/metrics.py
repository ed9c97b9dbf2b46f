"""The sidecar's metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
)

from fairlead.sync.desired import NAMESPACES, Snapshot
from fairlead.sync.plans import Served

disable_created_metrics()  # the time when a counter began is not used, and doubles the page


def not_after(registry: CollectorRegistry, source: Callable[[], float]) -> None:
    """Add the metric of the served certificate's end. `source` is called when metrics are read and
    returns seconds since 1970.
    """
    text = "When the served certificate ends, in seconds since 1970; 0 if unknown."
    Gauge("fairlead_certificate_not_after_seconds", text, registry=registry).set_function(source)


class Metrics:
    """The sidecar's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.errors = Counter(
            "fairlead_sync_errors", "Failed requests, by peer.", ["peer"], registry=self.registry
        )
        self.resyncs = Counter(
            "fairlead_sync_resyncs", "Times OPA was loaded from nothing.", registry=self.registry
        )
        self.relists = Counter(
            "fairlead_sync_relists",
            "Complete lists read from the API server.",
            registry=self.registry,
        )
        self.decisions = Counter(
            "fairlead_decisions",
            "Decisions of OPA, by intent and outcome.",
            ["intent", "outcome"],
            registry=self.registry,
        )
        self.unwritten = Counter(
            "fairlead_decisions_unwritten",
            "Decisions left out of the log: too many of a kind at a time, or too large to be read.",
            ["kind"],
            registry=self.registry,
        )
        self._policies = self._gauge("policies", "Policies that OPA should hold.")
        self._documents = self._gauge("documents", "Documents that OPA should hold.")
        self._namespaces = self._gauge("namespaces", "Namespaces that OPA holds.")
        self._objects = Gauge(
            "fairlead_sync_objects",
            "Replicated objects that OPA holds.",
            ["resource"],
            registry=self.registry,
        )
        self.left_out = Gauge(
            "fairlead_sync_left_out_objects",
            "Objects that OPA does not get, as they are too large or too many.",
            ["resource"],
            registry=self.registry,
        )
        self._pending = self._gauge(
            "pending",
            "ConfigMaps and resources that are not known yet, or that OPA holds only in part or "
            "not at all.",
        )
        self._rejected = self._gauge(
            "rejected_configmaps", "ConfigMaps with a policy or document that cannot be loaded."
        )
        self.lag = self._gauge(
            "lag_seconds", "Seconds since OPA last held what it should; 0 while it does."
        )
        self.confirmed = self._gauge(
            "confirmed_timestamp_seconds",
            "The time up to which OPA is known to hold the cluster's state; 0 while it is unknown.",
        )
        for peer in ("opa", "kubernetes"):
            self.errors.labels(peer)

    def decided(self) -> dict[str, dict[str, int]]:
        """How often each intent had which outcome."""
        counts: dict[str, dict[str, int]] = {}
        for metric in self.decisions.collect():
            for sample in metric.samples:
                if sample.name.endswith("_total"):
                    intent, outcome = sample.labels["intent"], sample.labels["outcome"]
                    counts.setdefault(intent, {})[outcome] = int(sample.value)
        return counts

    def holds(self, desired: Snapshot, opa_state: Served, rejected: int, pending: int) -> None:
        """Record the result of a cycle."""
        policies = sum(1 for kind, _ in desired.texts if kind == "policy")
        self._policies.set(policies)
        self._documents.set(len(desired.texts) - policies)
        for name, store in opa_state.stores.items():
            gauge = self._namespaces if name == NAMESPACES else self._objects.labels(name)
            gauge.set(len(store or ()))
        self._rejected.set(rejected)
        self._pending.set(pending)

    def _gauge(self, name: str, help_: str) -> Gauge:
        return Gauge(f"fairlead_sync_{name}", help_, registry=self.registry)

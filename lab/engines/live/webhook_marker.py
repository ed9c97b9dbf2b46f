"""Shows when an API server has webhooks in force."""

from __future__ import annotations

from typing import Any

from fairlead.engines.live.marker import Marker
from fairlead.kube.clients import Objects

_PHASES = {
    "MutatingWebhookConfiguration": "mutating",
    "ValidatingWebhookConfiguration": "validating",
}


class WebhookMarker(Marker):
    """A marker that is in force once all webhook configurations are."""

    def __init__(self, api: Objects) -> None:
        super().__init__(api)
        self._manifests += [self._webhook(kind, phase) for kind, phase in _PHASES.items()]

    def _in_force(self) -> bool:
        marks = [self._mark(phase) for phase in _PHASES.values()]
        called = all(mark in self._send(mark, "default", {}).message for mark in marks)
        return called and super()._in_force()

    def _webhook(self, kind: str, phase: str) -> dict[str, Any]:
        """A webhook that nobody serves, so that the API server refuses what it is called for."""
        mark = self._mark(phase)
        matched = self._matched(mark)
        webhook = {
            "name": f"{mark}.verify.fairlead.dev",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": matched["resourceRules"],
            "objectSelector": matched["objectSelector"],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"],
        }
        metadata = {"name": self._name}
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": metadata,
            "webhooks": [webhook],
        }

"""A real OPA as it is deployed, before a sidecar has loaded anything."""

from __future__ import annotations

from pathlib import Path

from fairlead.checks.fuzz.server import Opa, running
from fairlead.policy.bundles import Bundle

__all__ = ["DEADLINE", "OpaServer", "running"]

DEADLINE = 20.0


class OpaServer(Opa):
    """One OPA on a port of its own, which can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, bundle=Bundle({}), data={})

    def start(self) -> None:
        """Start, and wait until it answers; it has no policies, so it does not get ready."""
        self.launch()

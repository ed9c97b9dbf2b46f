"""A real OPA as it is deployed, before a sidecar has loaded anything."""

from __future__ import annotations

from pathlib import Path

from fairlead.policy.bundles import Bundle
from lab.fuzz.server import Opa, running

__all__ = ["DEADLINE", "OpaServer", "running"]

DEADLINE = 20.0


class OpaServer(Opa):
    """One OPA with its own port, which can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, bundle=Bundle({}), data={})

    def start(self) -> None:
        """Start it and wait until it answers. Without policies it does not become ready."""
        self.launch()

"""A bare cluster that remembers how its further servers were started, so that only what changed is
started again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.clusters.embedded.server import Probe
from fairlead.common import atomic_files
from fairlead.common.progress import Progress


class RememberingCluster(BareCluster):
    """What it remembers is in files of the cluster's folder, for later commands."""

    def _run(
        self,
        name: str,
        argv: list[str],
        progress: Progress,
        *,
        env: Mapping[str, str] | None = None,
        ready: str | None = None,
        ca: Path | None = None,
        probe: Probe | None = None,
        deadline: float = 30.0,
    ) -> bool:
        """Run the server with exactly these arguments; False if it runs so already."""
        if self._runs(name, argv, env or {}):
            return False
        if name in self.servers():
            self.stop_server(name)
        progress.update(name, "starting")
        self.start_server(name, argv, env=env, ready=ready, ca=ca, probe=probe, deadline=deadline)
        self._remember(f"{name}-started", [argv, dict(env or {})])
        progress.finish(name, "serving")
        return True

    def _runs(self, name: str, argv: list[str], env: Mapping[str, str]) -> bool:
        return name in self.servers() and self._remembered(f"{name}-started") == [argv, dict(env)]

    def _stop_servers(self, names: Sequence[str]) -> None:
        running = self.servers()
        for name in names:
            if name in running:
                self.stop_server(name)

    def _remembered(self, name: str) -> Any:
        try:
            return json.loads((self.path / f"{name}.json").read_text())
        except FileNotFoundError:
            return None

    def _remember(self, name: str, value: Any) -> None:
        atomic_files.write_private(self.path / f"{name}.json", json.dumps(value).encode())

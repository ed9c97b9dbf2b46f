"""A bare cluster that remembers how its further servers were started, so that only what changed is
started again."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fairlead
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.clusters.embedded.server import Probe
from fairlead.common import atomic_files
from fairlead.common.digests import digest
from fairlead.common.progress import Progress

_CODE = "FAIRLEAD_CODE"
"""The variable that says which code a server of Fairlead was started with."""


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
        """Run the server with exactly these arguments, and with the code of this moment if it is
        `fairlead`; False if it runs so already.
        """
        env = _with_code(argv, env or {})
        if self._runs(name, argv, env):
            return False
        if name in self.servers():
            self.stop_server(name)
        progress.update(name, "starting")
        self.start_server(name, argv, env=env, ready=ready, ca=ca, probe=probe, deadline=deadline)
        self._remember(f"{name}-started", [argv, env])
        progress.finish(name, "serving")
        return True

    def _runs(self, name: str, argv: list[str], env: Mapping[str, str]) -> bool:
        remembered = self._remembered(f"{name}-started")
        return name in self.servers() and remembered == [argv, _with_code(argv, env)]

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


def _with_code(argv: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    is_fairlead = list(argv[:3]) == [sys.executable, "-m", "fairlead"]
    return {**env, **({_CODE: _code()} if is_fairlead else {})}


@functools.cache
def _code() -> str:
    """Identifies the files of this package."""
    package = Path(fairlead.__file__).parent
    stats = [(str(path), path.stat()) for path in sorted(package.rglob("*.py"))]
    return digest(repr([(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]).encode())

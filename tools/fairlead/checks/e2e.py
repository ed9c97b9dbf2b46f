"""Runs the integration tests on a cluster of any kind, from creating the cluster to removing it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fairlead.checks import developers
from fairlead.clusters import registry
from fairlead.clusters.kind import KindCluster
from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.operations import diagnostics, up
from fairlead.settings.images import overridden
from fairlead.settings.models import Images, Settings

LOGS = Path("build") / "e2e-logs"
"""Where logs and events are kept when something fails, below the checkout."""


def run(
    target: registry.Target,
    arguments: Sequence[str] = (),
    *,
    sidecar: str | None = None,
    progress: Progress,
) -> bool:
    """Run the tests of integration/tests against `target`; `arguments` go to pytest. Returns
    whether all passed.

    An embedded cluster is started by the tests themselves; a KIND cluster is made, and removed
    again whatever happens, unless it was there before; a context's is used as it is. What failed
    leaves logs and events in LOGS. Raises FairleadError where the cluster does not come up.
    """
    developers.require("the end-to-end run", "pytest")
    logs = paths.root() / LOGS
    shutil.rmtree(logs, ignore_errors=True)
    with _cluster(target, sidecar, logs, progress):
        progress.update("tests", f"running on {target.kind}")
        passed = _pytest(target, logs, arguments)
    hint = f": logs and events are in {LOGS}" if logs.is_dir() else ""
    progress.update("tests", "passed" if passed else f"failed{hint}")
    return passed


@contextmanager
def _cluster(
    target: registry.Target, sidecar: str | None, logs: Path, progress: Progress
) -> Iterator[None]:
    if target.kind != "kind":
        yield
        return
    cluster = KindCluster(target.name)
    there = cluster.running()
    settings = Settings(images=overridden(Images(), os.environ))
    try:
        try:
            up.kind(target.name, settings, sidecar=sidecar, progress=progress)
        except FairleadError as error:
            if cluster.running() and diagnostics.collect(cluster, logs / target.name):
                raise FairleadError(f"{error}\nlogs and events are in {LOGS}") from error
            raise
        yield
    finally:
        if not there:
            progress.update("kind", f"removing cluster {target.name}")
            cluster.delete()


def _pytest(target: registry.Target, logs: Path, arguments: Sequence[str]) -> bool:
    """Run pytest, and see that it ends its clusters itself when this process is told to end."""
    environment = {
        **os.environ,
        **target.environment(),
        "FAIRLEAD_LOGS": str(logs),
        "PYTHONUNBUFFERED": "1",
    }
    argv = [sys.executable, "-m", "pytest", "integration/tests", *arguments]
    with subprocess.Popen(argv, cwd=paths.root(), env=environment, stdout=sys.stderr) as tests:
        try:
            return tests.wait() == 0
        except BaseException:
            tests.send_signal(signal.SIGINT)
            tests.wait()
            raise

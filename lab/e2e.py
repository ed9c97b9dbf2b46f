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

from fairlead.clusters import registry
from fairlead.clusters.kind import KindCluster
from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.operations import up
from fairlead.settings.images import overridden
from fairlead.settings.models import Images, Settings
from lab import developers, diagnostics, targets

LOGS = Path("build") / "e2e-logs"
"""The folder below the checkout for logs and events of failed tests."""


def run(
    target: registry.Target,
    arguments: Sequence[str] = (),
    *,
    sidecar: str | None = None,
    progress: Progress,
) -> bool:
    """Run the tests of integration/tests against `target`; `arguments` go to pytest. Returns
    whether all passed.

    The tests themselves start an embedded cluster. A KIND cluster is created, and removed again
    unless it existed before. The cluster of a context is used as it is. Failed tests leave logs and
    events in LOGS. Raises FairleadError if the cluster does not start.
    """
    developers.require("the end-to-end run", "pytest")
    logs = paths.root() / LOGS
    shutil.rmtree(logs, ignore_errors=True)
    with _cluster(target, sidecar, logs, progress):
        progress.update("tests", f"running on {target.kind}")
        passed = _pytest(target, logs, arguments)
    hint = f": logs and events are in {LOGS}" if logs.is_dir() else ""
    progress.finish("tests", "passed" if passed else f"failed{hint}")
    return passed


@contextmanager
def _cluster(
    target: registry.Target, sidecar: str | None, logs: Path, progress: Progress
) -> Iterator[None]:
    if target.kind != "kind":
        yield
        return
    cluster = KindCluster(target.name)
    existed = cluster.running()
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
        if not existed:
            progress.update("kind", f"removing cluster {target.name}")
            cluster.delete()
            progress.finish("kind", f"removed cluster {target.name}")


def _pytest(target: registry.Target, logs: Path, arguments: Sequence[str]) -> bool:
    """Run pytest. If this process is interrupted, so is pytest, which then stops its clusters."""
    environment = {
        **os.environ,
        **targets.environment(target),
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

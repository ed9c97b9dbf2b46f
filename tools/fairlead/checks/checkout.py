"""Tests a checkout of Fairlead, by its laboratory, which is not installed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

from fairlead.common import paths
from fairlead.common.errors import UsageError


def run(arguments: Sequence[str]) -> int:
    """Run `python -m lab test` with these arguments. Returns its exit code.

    If this process is interrupted, so are the tests, which then stop their clusters. Raises
    UsageError if this is no checkout.
    """
    if not (paths.root() / "lab").is_dir():
        raise UsageError("name the folder of your policies: fairlead test --policies FOLDER")
    command = [sys.executable, "-m", "lab", "test", *arguments]
    with subprocess.Popen(command, cwd=paths.root()) as tests:
        try:
            return tests.wait()
        except BaseException:
            tests.send_signal(signal.SIGINT)
            tests.wait()
            raise

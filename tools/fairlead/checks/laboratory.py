"""Runs commands of the laboratory, which a checkout of Fairlead has and no installed package."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from fairlead.common import paths


def present() -> bool:
    """Whether this is a checkout."""
    return (paths.root() / "lab").is_dir()


def run(*arguments: str) -> int:
    """Run `python -m lab` with these arguments. Returns its exit code.

    If this process is interrupted, so is that one, which then stops its clusters.
    """
    searched = [str(paths.root()), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(searched)}
    with subprocess.Popen([sys.executable, "-m", "lab", *arguments], env=environment) as process:
        try:
            return process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise

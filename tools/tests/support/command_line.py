"""The command `fairlead`, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def fairlead(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fairlead", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def refused(*arguments: str | Path) -> str:
    """The stderr of a failed command."""
    done = fairlead(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done
    lines = done.stderr.strip().splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) <= 2, done.stderr
    assert len(done.stderr) < 1000
    return done.stderr

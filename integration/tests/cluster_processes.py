"""Finds the processes of an embedded cluster."""

from __future__ import annotations

import os
import re
from pathlib import Path


def processes(name: str) -> list[str]:
    """The command lines of all processes that belong to the cluster `name`, and to none whose name
    only begins with it: other tests may run such clusters.
    """
    state = re.compile(rf"\.fairlead/{re.escape(name)}(?![\w-])")
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if state.search(line) and int(process.name) != os.getpid():
            lines.append(line)
    return lines

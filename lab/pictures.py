"""Runs a command in a pseudo-terminal and saves its output as a picture, for the documentation."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

from fairlead.common import paths
from fairlead.common.errors import FairleadError

_COLUMNS = 128


def demo() -> Path:
    """Write docs/demo.svg: what `fairlead demo` prints. Raises FairleadError if it fails."""
    path = paths.root() / "docs" / "demo.svg"
    text = _printed(sys.executable, "-m", "fairlead", "demo").replace("\r\n", "\n")
    console = Console(record=True, width=_COLUMNS, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    console.print(Text.from_ansi(f"$ fairlead demo\n{text}".rstrip()))
    svg = console.export_svg(title="make demo", unique_id="fairlead")
    # The picture must not download fonts; the reader's own monospace font suffices.
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))
    return path


def _printed(*command: str) -> str:
    """What the command prints on a terminal, without progress, which is on stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, _COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(_COLUMNS)}
    process = subprocess.Popen(command, stdout=theirs, env=environment)
    os.close(theirs)
    output = b""
    while True:
        try:
            output += os.read(ours, 65536)
        except OSError:  # the terminal is closed: the command has ended
            break
    if process.wait():
        raise FairleadError(f"{' '.join(command)} ended with {process.returncode}")
    return output.decode()

"""Runs a command in a terminal of its own and keeps what it printed as an SVG picture, for the
documentation.

Usage: python tools/capture.py FILE.svg TITLE COMMAND [ARGUMENT ...]
"""

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

COLUMNS = 128


def main(path: str, title: str, *command: str) -> None:
    """Write the picture to `path`; the command's progress (stderr) is left out of it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(command, stdout=theirs, env=environment)
    os.close(theirs)
    output = b""
    while True:
        try:
            output += os.read(ours, 65536)
        except OSError:  # the terminal is closed: the command has ended
            break
    if process.wait():
        sys.exit(process.returncode)
    text = output.decode().replace("\r\n", "\n")
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    console.print(
        Text.from_ansi(f"$ {' '.join(command[-2:]).replace('.venv/bin/', '')}\n{text}".rstrip())
    )
    svg = console.export_svg(title=title, unique_id="fairlead")
    # The picture must not fetch fonts from anywhere: the reader's own monospace does.
    Path(path).write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

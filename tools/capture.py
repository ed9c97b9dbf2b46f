"""Runs a command in a pseudo-terminal and saves its output as an SVG picture, for the
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
    """Write the picture to `path`. It shows the command's stdout, without progress on stderr."""
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
    # The picture must not download fonts; the reader's own monospace font suffices.
    Path(path).write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

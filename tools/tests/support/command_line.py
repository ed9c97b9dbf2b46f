"""The command `fairlead`, run in this process as `python -m fairlead` runs it: its messages, exit
codes and streams are the same, and it need not load everything again.

Commands that start servers, or that a test interrupts, need a process of their own. So do those
that leave the work to the laboratory, whose output goes past this process.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from fairlead import __main__ as entry

_OF_LABORATORY = ("test", "verify")
"""Commands that may start the laboratory."""


class _Called(click.Command):
    """The whole command line, with these arguments in place of the process's."""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__("fairlead")
        self.arguments = arguments

    def main(self, *_: Any, **options: Any) -> Any:
        return entry.cli.main(self.arguments, prog_name="fairlead", **options)


def fairlead(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The result of the command. Its standard input is empty and no terminal."""
    given = [str(argument) for argument in arguments]
    if given[:1] and given[0] in _OF_LABORATORY:
        return subprocess.run(
            [sys.executable, "-m", "fairlead", *given],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    handler, hook = signal.getsignal(signal.SIGTERM), sys.unraisablehook
    with CliRunner().isolation() as (stdout, stderr, _):
        try:
            entry.main(_Called(given))
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            signal.signal(signal.SIGTERM, handler)
            sys.unraisablehook = hook
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
    texts = (stream.getvalue().decode() for stream in (stdout, stderr))
    return subprocess.CompletedProcess(given, code, *texts)


def refused(*arguments: str | Path) -> str:
    """The stderr of a failed command."""
    done = fairlead(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done
    lines = done.stderr.strip().splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) <= 2, done.stderr
    assert len(done.stderr) < 1000
    return done.stderr

"""Runs programs: `run` ends them with this process, even if it is killed, and `answer` stops them
after a few seconds."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event

from fairlead.common.errors import FairleadError

# A shell that leads the program's process group and kills the whole group when its stdin ends. That
# happens when this process closes it, and also when this process is killed.
_LEADER = """
exec 3<&0
{ read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 &
"$@" </dev/null 3<&-
code=$?
exec 2>/dev/null
kill $!
wait $!
exit $code
"""
_TICK = 0.2  # seconds between two looks at `stop`


class StoppedError(FairleadError):
    """The work was stopped because something else failed or the user interrupted it."""


def run(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stop: Event,
    line: Callable[[str], None],
    tick: Callable[[], None] = lambda: None,
) -> int:
    """Run a program, pass each line of its output to `line`, and return its exit code.

    `tick` is called in between. When this returns or raises, the whole process group has ended.
    Raises StoppedError soon after `stop` is set.
    """
    with subprocess.Popen(
        ["/bin/sh", "-c", _LEADER, "fairlead", *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as child:
        try:
            assert child.stdout is not None  # noqa: S101 - it is a pipe
            tail = b""
            while True:
                if stop.is_set():
                    raise StoppedError("stopped")
                tick()
                if not select.select([child.stdout], [], [], _TICK)[0]:
                    continue
                chunk = os.read(child.stdout.fileno(), 65536)
                *lines, tail = (tail + chunk).split(b"\n")
                for text in lines if chunk else [tail]:
                    line(text.decode(errors="replace").rstrip())
                if not chunk:
                    return child.wait()
        finally:
            kill(child)


def answer(
    arguments: Sequence[str], *, env: Mapping[str, str] | None = None, seconds: float = 10
) -> str | None:
    """A program's output on stdout; None if it cannot start, fails, or takes over `seconds`."""
    try:
        child = subprocess.Popen(
            list(arguments),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    with child:
        try:
            output, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            kill(child)
    return output.decode(errors="replace") if child.returncode == 0 else None


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the child and its process group, unless it has ended."""
    if child.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)

"""Starts, controls and stops the supervisor of a cluster, from another process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

from fairlead.clusters.embedded import process_list, supervisor
from fairlead.clusters.embedded.server import Probe
from fairlead.common.errors import FairleadError

LOGS = "logs"
POLL = 0.05
"""Seconds between two checks of a condition."""
_ANSWER_WITHIN = 20.0
_STOP_WITHIN = 60.0
_LINES = 10

# Words in the log of a server that gives up -> the reason and what to do.
_KNOWN = {
    "address already in use": "its port is taken by another program: try again, each start takes "
    "other ports",
    "no space left on device": "the disk is full: free some space and try again",
    "disk quota exceeded": "the disk quota is used up: free some space and try again",
    "initialize inotify": "too many inotify instances are in use: stop another cluster, or raise "
    "the limit (`sysctl fs.inotify.max_user_instances`), and try again",
    "too many open files": "too many files are open: raise the limit (`ulimit -n`) and try again",
    "cannot allocate memory": "the machine is out of memory: stop something else and try again",
}


class Supervisor:
    """The supervisor of the cluster whose state is in `folder`, for the process that started
    it or any other.
    """

    def __init__(self, folder: Path, process: subprocess.Popen[bytes] | None = None) -> None:
        self.folder = folder
        self._process = process
        self._owned = process is not None
        self._identity = _identity(folder)
        self._lock = Lock()
        self._log_start: dict[str, int] = {}

    @classmethod
    def start(cls, folder: Path) -> Supervisor:
        """Start a supervisor that runs as long as this process, unless detached. Raises
        FairleadError, OSError.
        """
        (folder / LOGS).mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / LOGS / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", supervisor.__name__, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self = cls(folder, process)
        try:
            self._read_answer(process)
        except BaseException:
            self.stop()
            raise
        self._identity = _identity(folder)
        return self

    @classmethod
    def attach(cls, folder: Path) -> Supervisor | None:
        """The running supervisor of `folder`; None if none runs."""
        return cls(folder) if is_running(folder) else None

    def start_server(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        keep: bool = False,
        probe: Probe | None = None,
    ) -> int:
        """Start a server and return its pid; with `keep` it is restarted whenever it ends or its
        `probe` fails.

        From this process's environment it gets only what any program needs, and `env`: etcd and OPA
        read settings from variables that a user may have set for other reasons. Raises
        FairleadError.
        """
        inherited = {
            key: os.environ[key]
            for key in ("PATH", "HOME", "TMPDIR", "TZ", "LANG")
            if key in os.environ
        }
        log = self._log(name)
        self._log_start[name] = _size(log)
        command = {
            "name": name,
            "argv": [str(part) for part in argv],
            "env": {**inherited, **(env or {})},
        }
        options = {"keep": keep, "probe": asdict(probe) if probe else None}
        try:
            answer = self._ask({"start": {**command, "log": str(log), **options}})
        except _RefusedError as error:
            remedy = _remedy(str(error)) or ": `fairlead tools` tells where each program is"
            raise FairleadError(f"{name} cannot be started: {error}{remedy}") from error
        return int(answer["pid"])

    def keep(self, name: str) -> None:
        """Restart the server `name` whenever it ends, from now on. Raises FairleadError."""
        self._ask({"keep": name})

    def stop_server(self, name: str) -> None:
        """Stop the server `name` for good. Raises FairleadError if there is none."""
        self._ask({"stop": name})

    def detach(self) -> None:
        """Let the supervisor and its servers continue after this process. Raises FairleadError."""
        self._ask({"detach": True})
        self._owned = False
        if self._process:
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None  # noqa: S101 - both are pipes
                stream.close()

    def stop(self) -> None:
        """End every server and the supervisor; returns when all have ended. Safe to repeat."""
        if self._owned and self._process and self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        else:
            process_list.send(*self._identity, signal.SIGTERM)
        end = time.monotonic() + _STOP_WITHIN
        while self._alive() and time.monotonic() < end:
            time.sleep(POLL)
        self._sweep()
        if self._owned and self._process and self._process.stdout:
            self._process.kill()  # no effect if it has ended
            self._process.wait()
            self._process.stdout.close()

    def _sweep(self) -> None:
        """Kill what remains if the supervisor is dead or does not answer, but only processes
        that it started.
        """
        record = process_list.read(self.folder)
        if record is None or _identity(self.folder) != self._identity:
            return
        end = time.monotonic() + _STOP_WITHIN
        for entry in [record["supervisor"], *record["servers"].values()]:
            while (
                process_list.send(entry["pid"], entry["started"], signal.SIGKILL)
                and time.monotonic() < end
            ):
                time.sleep(POLL)

    def wait_for(self, name: str, unready: Callable[[], str | None], deadline: float) -> None:
        """Wait until `unready` returns None. Raises FairleadError with the end of the log if
        the server ends meanwhile, does not get its port, or is not ready after `deadline`
        seconds.
        """
        server = self._server(name)
        end = time.monotonic() + deadline
        while True:
            now = self._server(name)
            if now["pid"] != server["pid"] or now["pid"] is None:
                raise FairleadError(f"{name} ended ({_ending(now['exit'])}){self._why(name)}")
            reason = unready()
            if reason is None:
                return
            if "address already in use" in self._tail(name):
                raise FairleadError(f"{name} does not serve{self._why(name)}")
            if time.monotonic() > end:
                late = f"{name} was not ready within {deadline:.0f} s ({reason})"
                raise FairleadError(
                    f"{late}: is the machine very busy? Try again{self._lines(name)}"
                )
            time.sleep(POLL)

    def _alive(self) -> bool:
        return (
            self._process.poll() is None if self._process else process_list.alive(*self._identity)
        )

    def _server(self, name: str) -> process_list.ServerRecord:
        record = process_list.read(self.folder)
        if record is None or not self._alive() or record["supervisor"]["stopping"]:
            raise FairleadError(
                f"{name}: the cluster was stopped meanwhile, by `fairlead down` or by its "
                "supervisor's end"
            )
        if name not in record["servers"]:
            raise FairleadError(
                f"no server {name!r}; there are: {', '.join(sorted(record['servers'])) or 'none'}"
            )
        return record["servers"][name]

    def _log(self, name: str) -> Path:
        return self.folder / LOGS / f"{name}.log"

    def _tail(self, name: str) -> str:
        """The end of the log, from the server's start here on."""
        return tail(self._log(name), start=self._log_start.get(name, 0))

    def _why(self, name: str) -> str:
        return _remedy(self._tail(name)) + self._lines(name)

    def _lines(self, name: str) -> str:
        """The last lines of the log, preceded by the line with a known reason: a stack trace
        may follow it.
        """
        lines = [f"  {line[:400]}" for line in self._tail(name).splitlines() if line.strip()]
        if not lines:
            return "\nits log is empty: `fairlead tools` tells which program it is"
        telling = [line for line in lines[:-_LINES] if _remedy(line)]
        return "\n".join(["\nlast lines of its log:", *telling[-1:], *lines[-_LINES:]])

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        line = json.dumps(command).encode() + b"\n"
        with self._lock:
            if self._process and self._owned:
                assert self._process.stdin is not None  # noqa: S101 - it is a pipe
                try:
                    self._process.stdin.write(line)
                    self._process.stdin.flush()
                except (OSError, ValueError) as error:
                    raise self._gone() from error
                return self._read_answer(self._process)
            try:
                with _connect(self.folder) as connection:
                    connection.settimeout(_ANSWER_WITHIN)
                    connection.sendall(line)
                    return _answer(connection.makefile("rb").readline())
            except OSError as error:
                raise self._gone() from error

    def _read_answer(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """The next line. There is at most one, as each command has one answer: none stays in
        the stream's buffer.
        """
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        readable, _, _ = select.select([process.stdout], [], [], _ANSWER_WITHIN)
        line = process.stdout.readline() if readable else b""
        if not line:
            raise self._gone()
        return _answer(line)

    def _gone(self) -> FairleadError:
        return FairleadError(
            f"the cluster's supervisor does not answer or has ended{self._why('supervisor')}"
        )


class _RefusedError(FairleadError):
    """The supervisor's answer is an error."""


def is_running(folder: Path) -> bool:
    """Whether a supervisor runs for `folder`, and is not about to end."""
    record = process_list.read(folder)
    if record is None or record["supervisor"]["stopping"]:
        return False
    return process_list.alive(record["supervisor"]["pid"], record["supervisor"]["started"])


def _identity(folder: Path) -> tuple[int | None, str | None]:
    record = process_list.read(folder)
    return (
        (record["supervisor"]["pid"], record["supervisor"]["started"]) if record else (None, None)
    )


def tail(log: Path, *, start: int = 0, size: int = 16384) -> str:
    """The last `size` bytes of a log, from byte `start` at the earliest; empty if there is none."""
    try:
        with log.open("rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(start, end - size))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _remedy(text: str) -> str:
    lower = text.lower()
    return next((f": {remedy}" for words, remedy in _KNOWN.items() if words in lower), "")


def _ending(code: int | None) -> str:
    if code is None:
        return "unknown exit code"
    return (
        f"exit code {code}"
        if code >= 0
        else f"by signal {-code}" + (", as for lack of memory" * (code == -9))
    )


def _answer(line: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise _RefusedError(str(answer["error"]))
    return answer


@contextlib.contextmanager
def _connect(folder: Path) -> Iterator[socket.socket]:
    """A connection to the supervisor's socket, whose path may be too long for an address."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            path = Path(f"/proc/self/fd/{handle}") if sys.platform == "linux" else folder
            connection.connect(str(path / supervisor.SOCKET))
            yield connection
    finally:
        os.close(handle)

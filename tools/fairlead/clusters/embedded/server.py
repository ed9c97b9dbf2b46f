"""One server process: the supervisor restarts it when it exits, and stops it when the supervisor
itself ends.

Standard library only, as the supervisor that imports it runs as long as the cluster.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial

from fairlead.clusters.embedded import process_list

GRACE = 3.0
"""Seconds that a server has between SIGTERM and SIGKILL."""
STEADY = 1.0
"""Seconds after which a server's next restart comes at once, as it was stable."""
LONGEST_BACKOFF = 1.0
"""The longest wait, in seconds, between two restarts of a server that never runs for long."""

# a name and no import, as TLS would stay in the supervisor's memory
_PROBE = "fairlead.clusters.embedded.probe"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Probe:
    """When a server counts as hung: once the https `url` has failed `failures` times in a row.

    There is a check each `period` seconds, with `timeout` for the answer. Until the first success
    it has `startup` seconds.
    """

    url: str
    period: float
    timeout: float
    failures: int
    startup: float


@dataclass
class Server:
    """How to start a server, and its state; with `keep` it runs until it is stopped.

    With a `probe`, it is killed when the probe fails, and with `keep` it is then restarted.
    """

    name: str
    argv: list[str]
    env: dict[str, str]
    log: str
    keep: bool = False
    probe: Probe | None = None
    due: float | None = None
    """When it has to be restarted, by the monotonic clock; None if it has not."""
    _process: subprocess.Popen[bytes] | None = None
    _watcher: subprocess.Popen[bytes] | None = None
    _started: str | None = None
    _began: float = 0.0
    _restarts: int = 0
    _early_deaths: int = 0
    _exit: int | None = None

    @property
    def pid(self) -> int | None:
        """The process's pid; None if it does not run."""
        return self._process.pid if self._process else None

    def record(self) -> process_list.ServerRecord:
        """The server's entry in the list of processes."""
        return {
            "pid": self.pid,
            "started": self._started,
            "restarts": self._restarts,
            "log": self.log,
            "exit": self._exit,
        }

    def start(self) -> int:
        """Start it and return its pid. Raises OSError, ValueError, subprocess.SubprocessError."""
        self._process = self._spawn(self.argv)
        self._began = time.monotonic()
        self._started = process_list.started(self._process.pid)
        if self.probe:
            options = json.dumps(asdict(self.probe))
            try:
                self._watcher = self._spawn([sys.executable, "-P", "-m", _PROBE, options])
            except BaseException:
                self._process.kill()
                raise
        return self._process.pid

    def run_from_now_on(self) -> None:
        """Restart it whenever it ends, and now if it has ended already."""
        self.keep = True
        if self._process is None and self.due is None:
            self.due = time.monotonic()

    def restart(self) -> None:
        """Start it again. Raises as `start`; then another restart is due later."""
        self.due = time.monotonic() + LONGEST_BACKOFF
        self._restarts += 1
        self.start()
        self.due = None

    def reap(self) -> str | None:
        """How it ended, if it has since the last call; with `keep`, a restart is due."""
        if self._watcher and self._watcher.poll() is not None and self._process:
            self._process.kill()  # the next check notices its end
        if self._process is None or (code := self._process.poll()) is None:
            return None
        self._end_watcher()
        now = time.monotonic()
        self._process, self._started, self._exit = None, None, code
        if not self.keep:
            return f"{self.name} ended ({code})"
        self._early_deaths = self._early_deaths + 1 if now - self._began < STEADY else 0
        wait = min(0.1 * 2**self._early_deaths, LONGEST_BACKOFF) if self._early_deaths else 0.0
        self.due = now + wait
        return f"{self.name} ended ({code}), and is started again in {wait:.1f} s"

    def stop(self) -> None:
        """Stop it for good; returns when it has ended."""
        self.keep, self.due = False, None
        self._end_watcher()
        if self._process is None:
            return
        self._process.terminate()
        # a process that is stopped would not receive the other signal
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._exit, self._process, self._started = self._process.returncode, None, None

    def _spawn(self, argv: list[str]) -> subprocess.Popen[bytes]:
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.Popen(
                argv,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=partial(_die_with, os.getpid()),
            )
        finally:
            os.close(log)

    def _end_watcher(self) -> None:
        if self._watcher:
            self._watcher.kill()
            self._watcher.wait()
        self._watcher = None


def _die_with(parent: int) -> None:
    """Runs in the new process, before its program: end with the supervisor, even if that is
    killed. Linux only.
    """
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the supervisor was killed before the line above
            os._exit(1)

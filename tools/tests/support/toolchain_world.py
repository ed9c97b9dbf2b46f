"""An isolated environment for each test: its own PATH, cache and checkout, and a Go that compiles
nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fairlead.common.progress import Progress
from fairlead.programs.toolchain import programs, recipe


class Told(Progress):
    """A progress listener that records the states."""

    def __init__(self) -> None:
        self.states: list[tuple[str, str]] = []
        self.counts: list[tuple[int, int]] = []

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        self.states.append((name, state))
        self.counts.append((done, total))


class World:
    """The folders of the environment and their content. It also changes the environment variables
    of this process.
    """

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.cache = folder / "cache"
        self.checkout = folder / "checkout"
        self.fake = folder / "fake"
        self._started: list[subprocess.Popen[str]] = []
        for each in (self.bin, self.fake, self.checkout / "policies"):
            each.mkdir(parents=True)
        (self.checkout / "policies" / "main.rego").touch()
        tools = Path(recipe.__file__).parents[3]
        shutil.copytree(tools / "toolchain", self.modules)
        for module in {each.module for each in programs.PROGRAMS if each.own}:
            shutil.copytree(tools / module, self.checkout / "tools" / module)
        self.environment = {
            "PATH": str(self.bin),
            "XDG_CACHE_HOME": str(self.cache),
            "FAIRLEAD_HOME": str(self.checkout),
            "FAKE_GO": str(self.fake),
        }

    @property
    def modules(self) -> Path:
        return self.checkout / "tools" / "toolchain"

    def go(self, mode: str = "build", version: str = "1.99.0") -> None:
        """Put a fake Go on PATH; call this after the environment is set."""
        script = Path(__file__).with_name("fake_go.py").read_text()
        self.executable(self.bin / "go", f"#!{sys.executable}\n{script}")
        (self.fake / "mode").write_text(mode)
        (self.fake / "version").write_text(version)
        says = {each.name: said(each.name) for each in programs.PROGRAMS}
        (self.fake / "says").write_text(json.dumps(says))

    def executable(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def program(self, name: str, says: str, folder: str = "bin") -> Path:
        """Put a program on PATH that always prints `says`."""
        return self.executable(self.bin.parent / folder / name, f"#!/bin/sh\necho '{says}'\n")

    def builds(self) -> list[list[str]]:
        """The arguments of each `go build` so far."""
        log = self.fake / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [arguments for arguments in map(json.loads, lines) if arguments[0] == "build"]

    def files(self) -> list[str]:
        """Every file in the cache but the locks, and every temporary folder."""
        paths = (path for path in self.cache.rglob("*") if path.name != "lock")
        return sorted(path.name for path in paths if path.is_file() or path.name.startswith("tmp-"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `fairlead` as a process of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", *arguments],
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        """End the processes that a failed test left."""
        pids = self.fake / "pids"
        for pid in map(int, pids.read_text().split() if pids.exists() else ()):
            if runs(pid):
                os.kill(pid, signal.SIGKILL)
        for process in self._started:
            process.kill()
            process.communicate()


def said(name: str) -> str:
    """The output of the program with the pinned version."""
    (program,) = programs.select([name])
    return program.says.format(version=recipe.load(program.module).version)


DEADLINE = 300
"""Seconds within which a process ends or a condition holds, on however busy a machine."""


def until(condition: Callable[[], bool], seconds: float = DEADLINE) -> None:
    """Wait until `condition` holds; fail if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def runs(pid: int) -> bool:
    """Whether the process runs. A zombie does not count as running."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False

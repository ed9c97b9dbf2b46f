"""Builds missing programs: one `go build` for each module, in parallel on all cores. Only one
process builds at a time (cache.py)."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.programs import processes
from fairlead.programs.toolchain import cache, golang, installed
from fairlead.programs.toolchain.golang import Go
from fairlead.programs.toolchain.programs import Program
from fairlead.programs.toolchain.recipe import Recipe

# `go list` calls a command "stale" if it is not installed; none here ever is.
_STALE = (
    '{{if .Stale}}{{if ne .StaleReason "not installed but available in build '
    'cache"}}stale{{end}}{{end}}'
)
_PACKAGE = re.compile(r"[\w.~+@/-]+")  # a line of `go build -v`
_TAIL = 12  # lines of a failed build that are shown

# A pattern in the output of a failed build -> what to do about it.
_ADVICE = (
    (
        r"checksum mismatch|SECURITY ERROR",
        "A module is not the one that go.sum pins: check `go env GOPROXY`.",
    ),
    (
        r"missing go.sum entry|updates to go.mod needed",
        "go.mod and go.sum do not belong together: restore both from git.",
    ),
    (
        r"signal: killed|cannot allocate memory",
        "Memory ran out: end other programs, and build one at a time.",
    ),
    (
        r"dial tcp|proxyconnect|no such host|timeout|TLS handshake|connection re(?:fused|set)|tls:|unexpected EOF",  # noqa: E501
        "A module could not be downloaded: check the network, HTTPS_PROXY and `go env GOPROXY`.",
    ),
)


def build(missing: dict[Recipe, list[Program]], progress: Progress) -> None:
    """Build programs into the cache, except those that another process has built meanwhile.

    A failure or Ctrl-C ends every build. Raises FairleadError with the end of the failed build's
    output and what to do.
    """
    stop = Event()
    go = golang.provide(max(recipe.go for recipe in missing), progress, stop)
    # The longest first: the module with the most programs, and then those listed last.
    order = list(missing.items())[::-1]
    order.sort(key=lambda item: len(item[1]), reverse=True)
    with ThreadPoolExecutor(max_workers=min(len(order), os.cpu_count() or 1)) as pool:
        try:
            for future in as_completed(
                [pool.submit(_Module(*item, go, progress, stop).run) for item in order]
            ):
                future.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


class _Module:
    """The build of one module: its progress and its output."""

    def __init__(
        self, recipe: Recipe, programs: Sequence[Program], go: Go, progress: Progress, stop: Event
    ) -> None:
        self._recipe = recipe
        self._programs = list(programs)
        self._go = go
        self._progress = progress
        self._stop = stop
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._downloaded = self._compiled = self._packages = 0

    def run(self) -> None:
        with cache.locked_workspace(self._recipe.home, self._waiting, self._stop) as temporary:
            for program in list(self._programs):
                if self._recipe.built(program).is_file():
                    self._ready(program)
            if self._programs:
                self._build(temporary)

    def _build(self, temporary: Path) -> None:
        output, work = temporary / "out", temporary / "work"
        output.mkdir()
        work.mkdir()
        packages = [program.package for program in self._programs]
        # Go names a program after its package's last element, which for etcd is `server`.
        target = f"{output}/{self._programs[0].name}" if len(packages) == 1 else f"{output}/"
        self._progress.update(self._recipe.module, "downloading")
        self._go_do(["list", *self._recipe.flags, "-deps", "-f", _STALE, *packages], work)
        self._report()
        self._go_do(["build", "-v", *self._recipe.flags, "-o", target, *packages], work, output)
        self._collect(output, ended=True)
        if self._programs:
            names = ", ".join(program.name for program in self._programs)
            raise FairleadError(
                f"{names}: built, but does not run and report version {self._recipe.version}; if "
                f"the disk of {self._recipe.home} is mounted noexec, set XDG_CACHE_HOME to a "
                "folder on another one"
            )
        self._progress.finish(self._recipe.module, "ready")

    def _go_do(self, arguments: list[str], work: Path, output: Path | None = None) -> None:
        self._tail.clear()
        code = processes.run(
            [str(self._go.path), *arguments],
            cwd=self._recipe.source,
            env=self._go.environment(work),
            stop=self._stop,
            line=self._line,
            tick=lambda: self._collect(output) if output else None,
        )
        if code != 0:
            names = ", ".join(program.name for program in self._programs)
            raise FairleadError(
                f"{names} {self._recipe.version} could not be built (go {arguments[0]} ended with "
                f"{code}):\n  " + "\n  ".join(self._tail) + f"\n{self._advice()}"
            )

    def _line(self, text: str) -> None:
        if text == "stale":
            self._packages += 1
        elif text.startswith("go: downloading "):
            self._downloaded += 1
            self._progress.update(self._recipe.module, "downloading", done=self._downloaded)
        elif _PACKAGE.fullmatch(text):
            self._compiled += 1
            self._report()
        elif text:
            self._tail.append(text)

    def _report(self) -> None:
        compiled = min(self._compiled, self._packages)
        state = "compiling" if compiled < self._packages else "linking"
        self._progress.update(self._recipe.module, state, done=compiled, total=self._packages)

    def _collect(self, output: Path, *, ended: bool = False) -> None:
        """Move each finished program into the cache, while Go still links the others.

        Go may still be writing a program (it copies if it cannot rename), so a program counts as
        finished once it reports its version, or, if it cannot do that, once Go has `ended`.
        """
        for program in list(self._programs):
            path = output / program.name
            if not (program.says or ended):
                continue
            if path.is_file() and installed.reports(program, path, self._recipe.version):
                cache.publish(path, self._recipe.built(program))
                self._ready(program)

    def _ready(self, program: Program) -> None:
        self._programs.remove(program)
        self._progress.finish(program.name, "ready")

    def _waiting(self) -> None:
        self._progress.warn(f"{self._recipe.module}: waiting for another process that builds it")

    def _advice(self) -> str:
        text = "\n".join(self._tail)
        full = cache.full(self._recipe.home, text)
        if full:
            return full
        for pattern, advice in _ADVICE:
            if re.search(pattern, text):
                return f"{advice} Then repeat; what is already compiled is kept."
        return (
            f"Repeat with `fairlead tools --build {self._programs[0].name}`; what is already "
            "compiled is kept."
        )

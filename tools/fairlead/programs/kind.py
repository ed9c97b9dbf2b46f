"""Runs the program `kind` at the pinned version.

It creates and removes containers without asking whose they are; fairlead.clusters.kind does that.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.programs import processes, toolchain

_SILENT = Progress()
_WITHIN = 60.0  # seconds for what only reads
_TAIL = 6  # lines of a failed command's output that messages quote


class KindError(FairleadError):
    """kind failed; the message quotes it."""


class ExistsError(KindError):
    """Something with that name already exists; it was not changed."""


def clusters() -> list[str]:
    """The names of all clusters of this Docker engine, in any state. Raises KindError."""
    return _read("get", "clusters").split()


def containers(name: str) -> list[str]:
    """The ids of a cluster's containers, running or not. Raises KindError."""
    label = f"label=io.x-k8s.kind.cluster={name}"  # kind finds them by the same label
    ids = processes.answer(
        ["docker", "ps", "--all", "--quiet", "--no-trunc", "--filter", label], seconds=_WITHIN
    )
    if ids is None:
        raise KindError("docker ps: no answer from Docker: see `docker ps`")
    return sorted(ids.split())


def kubeconfig(name: str) -> str:
    """An administrator's kubeconfig, from the control plane. Raises KindError, for instance if that
    does not run.
    """
    return _read("get", "kubeconfig", "--name", name)


def create(
    name: str, *, config: Path, image: str, kubeconfig: Path, wait: float, progress: Progress
) -> None:
    """Create a cluster, and wait up to `wait` seconds for its control plane to be Ready.

    When this returns or raises, kind and its child processes have ended; containers may be left
    after Ctrl-C. Raises ExistsError, KindError.
    """
    options = ["--config", str(config), "--kubeconfig", str(kubeconfig)]
    _run(
        "create",
        "cluster",
        "--name",
        name,
        *options,
        "--image",
        image,
        "--wait",
        f"{wait:.0f}s",
        progress=progress,
    )


def delete(name: str, *, kubeconfig: Path) -> None:
    """Remove a cluster's containers, and its entry in `kubeconfig`. Raises KindError."""
    _run("delete", "cluster", "--name", name, "--kubeconfig", str(kubeconfig))


def load(name: str, images: list[str], *, progress: Progress) -> None:
    """Copy images from the Docker engine to every node that lacks them. Raises KindError."""
    _run("load", "docker-image", "--name", name, *images, progress=progress)


def _read(*arguments: str) -> str:
    """Run kind, and return its standard output."""
    program = toolchain.ensure(["kind"])["kind"]
    try:
        completed = subprocess.run(
            [program, *arguments],
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise KindError(
            f"kind {' '.join(arguments[:2])}: no answer within {_WITHIN:.0f} s: does Docker hang?"
        ) from error
    if completed.returncode:
        raise _error(arguments, completed.stderr.splitlines(), completed.returncode)
    return completed.stdout


def _run(*arguments: str, progress: Progress = _SILENT) -> None:
    """Run kind, and report its steps."""
    program = toolchain.ensure(["kind"], progress)["kind"]
    lines: list[str] = []

    def line(text: str) -> None:
        lines.append(text)
        if step := _step(text):
            progress.update("kind", step)

    code = processes.run(
        [str(program), *arguments], cwd=Path.cwd(), env=_environment(), stop=Event(), line=line
    )
    if code:
        raise _error(arguments, lines, code)


def _environment() -> dict[str, str]:
    # Only Docker: another engine would have other images, and other ways to load them.
    return {**os.environ, "KIND_EXPERIMENTAL_PROVIDER": ""}


def _step(text: str) -> str:
    """The step that a line of kind's log announces, without emoji; empty for other lines."""
    if not text.startswith(" • "):
        return ""
    plain = text.encode("ascii", "ignore").decode().replace("...", "")
    return " ".join(plain.split()).lower()


def _error(arguments: Sequence[str], lines: list[str], code: int) -> KindError:
    """The error of kind: its own message, and the end of the output of the command that failed."""
    first = next((number for number, text in enumerate(lines) if text.startswith("ERROR: ")), 0)
    head, _, output = "\n".join(lines[first:]).removeprefix("ERROR: ").partition("Command Output:")
    tail = [text for text in output.splitlines() if text.strip()][-_TAIL:]
    words = "\n".join([head.partition(': command "')[0].strip(), *tail]) if tail else head.strip()
    error_type = ExistsError if "already exist for a cluster with the name" in words else KindError
    return error_type(f"kind {' '.join(arguments[:2])}: {words or f'ended with {code}'}")

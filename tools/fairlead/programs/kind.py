"""Runs the program `kind`, at exactly the pinned version.

What it makes and removes are containers: whose they are is not asked here, but in
fairlead.clusters.kind.
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
_KEPT = 6  # lines of a failed command's output that are told


class KindError(FairleadError):
    """kind failed; the message has its own words."""


class ExistsError(KindError):
    """Something of that name is there already; nothing was done to it."""


def clusters() -> list[str]:
    """The names of all clusters of this Docker engine, whole or not, running or not. Raises
    KindError.
    """
    return _read("get", "clusters").split()


def containers(name: str) -> list[str]:
    """The ids of the containers that a cluster consists of, running or not. Raises KindError."""
    label = f"label=io.x-k8s.kind.cluster={name}"  # what kind itself finds them by
    ids = processes.answer(
        ["docker", "ps", "--all", "--quiet", "--no-trunc", "--filter", label], seconds=_WITHIN
    )
    if ids is None:
        raise KindError("docker ps: no answer from Docker: see `docker ps`")
    return sorted(ids.split())


def kubeconfig(name: str) -> str:
    """An administrator's kubeconfig, read from the control plane. Raises KindError, as where
    that does not run.
    """
    return _read("get", "kubeconfig", "--name", name)


def create(
    name: str, *, config: Path, image: str, kubeconfig: Path, wait: float, progress: Progress
) -> None:
    """Make a cluster, and wait up to `wait` seconds for its control plane to be Ready.

    kind and all that it started have ended when this returns or raises, but containers may be left
    after Ctrl-C. Raises ExistsError, KindError.
    """
    where = ["--config", str(config), "--kubeconfig", str(kubeconfig)]
    _run(
        "create",
        "cluster",
        "--name",
        name,
        *where,
        "--image",
        image,
        "--wait",
        f"{wait:.0f}s",
        progress=progress,
    )


def delete(name: str, *, kubeconfig: Path) -> None:
    """Remove a cluster's containers, and its entry in `kubeconfig`; that there is none is fine.
    Raises KindError.
    """
    _run("delete", "cluster", "--name", name, "--kubeconfig", str(kubeconfig))


def load(name: str, images: list[str], *, progress: Progress) -> None:
    """Copy images from the Docker engine to every node that lacks them. Raises KindError."""
    _run("load", "docker-image", "--name", name, *images, progress=progress)


def _read(*arguments: str) -> str:
    """Run kind for what it prints on standard output."""
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
    """Run kind, and tell what it does as it goes."""
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
    # Another engine than Docker would have other images, and other ways to load them.
    return {**os.environ, "KIND_EXPERIMENTAL_PROVIDER": ""}


def _step(text: str) -> str:
    """What a line of kind's log tells of a step that it begins, without its pictures; empty for
    other lines.
    """
    if not text.startswith(" • "):
        return ""
    plain = text.encode("ascii", "ignore").decode().replace("...", "")
    return " ".join(plain.split()).lower()


def _error(arguments: Sequence[str], lines: list[str], code: int) -> KindError:
    """kind's own error: what it was doing, and the end of what a command said that failed at it."""
    first = next((number for number, text in enumerate(lines) if text.startswith("ERROR: ")), 0)
    head, _, output = "\n".join(lines[first:]).removeprefix("ERROR: ").partition("Command Output:")
    tail = [text for text in output.splitlines() if text.strip()][-_KEPT:]
    words = "\n".join([head.partition(': command "')[0].strip(), *tail]) if tail else head.strip()
    error_type = ExistsError if "already exist for a cluster with the name" in words else KindError
    return error_type(f"kind {' '.join(arguments[:2])}: {words or f'ended with {code}'}")

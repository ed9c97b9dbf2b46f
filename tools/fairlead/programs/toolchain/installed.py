"""Finds a program that is already installed: on PATH or in the cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from fairlead.programs import processes
from fairlead.programs.toolchain.programs import Program
from fairlead.programs.toolchain.recipe import Recipe


def find(program: Program, recipe: Recipe) -> tuple[str, Path] | None:
    """The program's source ("PATH" or "cache") and absolute path; None if it has to be built."""
    for path in on_path(program.name) if program.says and not program.own else ():
        if reports(program, path, recipe.version):
            return "PATH", path
    built = recipe.built(program)
    return ("cache", built) if built.is_file() else None


def on_path(name: str) -> Iterator[Path]:
    """Every executable called `name` on PATH, in order: a later one may have the right version.

    Relative entries of PATH are ignored, because their meaning depends on the working directory.
    """
    paths = set()
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        path = Path(entry) / name
        if path.is_absolute() and path not in paths and path.is_file() and os.access(path, os.X_OK):
            paths.add(path)
            yield path


def reports(program: Program, path: Path, version: str) -> bool:
    """Whether the program at `path` reports exactly `version`, without a failure or a hang. One
    that cannot say its version only has to run.
    """
    env = {**os.environ, "KUBECONFIG": os.devnull}  # a broken one would make kubectl fail
    output = processes.answer([str(path), *program.arguments], env=env)
    if output is None or not program.says:
        return output is not None
    says = program.says.format(version=version)
    return any(line == says or line.startswith(f"{says} ") for line in output.splitlines())

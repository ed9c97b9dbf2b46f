"""The programs that Fairlead runs (OPA, a Kubernetes control plane, kwok), at pinned versions.

>>> from fairlead.programs import toolchain
>>> toolchain.ensure(["opa"])["opa"]  # doctest: +SKIP
PosixPath('/home/me/.cache/fairlead/tools/opa/1.22.3-0123456789/opa')
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fairlead.common.progress import Progress
from fairlead.programs.toolchain import build
from fairlead.programs.toolchain import sources as module_sources
from fairlead.programs.toolchain.installed import find
from fairlead.programs.toolchain.newest import Pin, older
from fairlead.programs.toolchain.programs import (
    FAIRLEAD_OPA,
    KUSTOMIZE,
    MATCHER,
    NAMES,
    OWN,
    PEERS,
    REGAL,
    Program,
    select,
)
from fairlead.programs.toolchain.recipe import Recipe, of

__all__ = [
    "FAIRLEAD_OPA",
    "KUSTOMIZE",
    "MATCHER",
    "NAMES",
    "OWN",
    "PEERS",
    "REGAL",
    "Pin",
    "ProgramState",
    "cached",
    "ensure",
    "older",
    "released",
    "sources",
    "states",
]

_SILENT = Progress()
_GIVEN = "FAIRLEAD_PROGRAMS"
"""The variable by which Fairlead's image names the folder of the programs that it brings along."""


@dataclass(frozen=True)
class ProgramState:
    """A program: its pinned version, its source (PATH, cache, or go build if it is not built yet),
    and its path.
    """

    name: str
    version: str
    source: str
    state: str  # "ready" or "not built"
    path: str | None


def ensure(names: Iterable[str | Program], progress: Progress = _SILENT) -> dict[str, Path]:
    """The absolute path of each program, by its name; missing programs are built first, except in
    Fairlead's image, which has its own. A program that is not in the list is given as a Program.

    Raises UsageError for an unknown name. If a build fails, raises FairleadError with the end of
    its output and what to do. Ctrl-C ends the build, and leaves nothing that looks finished.
    """
    if given := os.environ.get(_GIVEN):
        in_image = [name if isinstance(name, str) else name.name for name in names]
        return {name: Path(given, name) for name in in_image}
    result: dict[str, Path] = {}
    missing: dict[Recipe, list[Program]] = {}
    for program, recipe in _recipes(names):
        installed = find(program, recipe)
        result[program.name] = installed[1] if installed else recipe.built(program)
        if installed is None:
            missing.setdefault(recipe, []).append(program)
    if missing:
        build.build(missing, progress)
    return result


def sources(name: str, module: str, progress: Progress = _SILENT) -> Path:
    """The folder of the Go module `module`, of which the program is built, or on which that
    depends, in the pinned version. Raises UsageError for an unknown name, and FairleadError if it
    cannot be downloaded.
    """
    ((_, recipe),) = _recipes([name])
    return module_sources.folder(recipe, module, progress)


def released(module: str, version: str, progress: Progress = _SILENT) -> Path:
    """The folder of a release (v1.2.3) of the Go module `module`, of which no program here is
    built. Raises FairleadError if it cannot be downloaded.
    """
    return module_sources.released(module, version, progress)


def cached(names: Iterable[str] = NAMES) -> dict[Path, Path]:
    """The programs that this machine has already built: relative path in the cache -> path.

    A machine of the same kind can use copies at the same relative paths. Raises UsageError for an
    unknown name.
    """
    built = [recipe.built(program) for program, recipe in _recipes(names)]
    return {path.relative_to(path.parents[2]): path for path in built if path.is_file()}


def states(names: Iterable[str] = NAMES) -> list[ProgramState]:
    """Where each program is now; builds nothing. Raises UsageError for an unknown name."""
    result = []
    for program, recipe in _recipes(names):
        source, path = find(program, recipe) or ("go build", None)
        state = "ready" if path else "not built"
        result.append(
            ProgramState(program.name, recipe.version, source, state, str(path) if path else None)
        )
    return result


def _recipes(names: Iterable[str | Program]) -> list[tuple[Program, Recipe]]:
    return [(program, of(program)) for program in select(names)]

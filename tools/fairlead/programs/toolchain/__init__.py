"""The programs that Fairlead runs (OPA, a Kubernetes control plane, kwok), each at exactly the
pinned version.

>>> from fairlead import toolchain
>>> toolchain.ensure(["opa"])["opa"]  # doctest: +SKIP
PosixPath('/home/me/.cache/fairlead/tools/opa/1.22.0-0123456789/opa')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fairlead.common.progress import Progress
from fairlead.programs.toolchain import build
from fairlead.programs.toolchain.installed import find
from fairlead.programs.toolchain.programs import NAMES, PROXY, Program, select
from fairlead.programs.toolchain.recipe import Recipe, load

__all__ = ["NAMES", "PROXY", "ProgramState", "cached", "ensure", "states"]

_SILENT = Progress()


@dataclass(frozen=True)
class ProgramState:
    """A program: its pinned version, its source (PATH, cache, or go build where it is still to
    be built), its path.
    """

    name: str
    version: str
    source: str
    state: str  # "ready" or "not built"
    path: str | None


def ensure(names: Iterable[str], progress: Progress = _SILENT) -> dict[str, Path]:
    """The absolute path of each program called `names`, and of no other; those that are nowhere are
    built first.

    Raises UsageError for an unknown name, and FairleadError where one cannot be built: with the end
    of the build's output and what to do. Ctrl-C ends the build and leaves nothing that looks
    finished.
    """
    result: dict[str, Path] = {}
    missing: dict[Recipe, list[Program]] = {}
    for program, recipe in _recipes(names):
        at = find(program, recipe)
        result[program.name] = at[1] if at else recipe.built(program)
        if at is None:
            missing.setdefault(recipe, []).append(program)
    if missing:
        build.build(missing, progress)
    return result


def cached(names: Iterable[str] = NAMES) -> dict[Path, Path]:
    """Each program that the cache of this machine has at the version pinned: its path in the cache
    -> its path.

    Another machine of the same kind finds it there, and need not build it. Raises UsageError for an
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


def _recipes(names: Iterable[str]) -> list[tuple[Program, Recipe]]:
    programs = select(names)
    recipes = {module: load(module) for module in {program.module for program in programs}}
    return [(program, recipes[program.module]) for program in programs]

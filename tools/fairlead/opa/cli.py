"""Runs the program `opa`: evaluates, checks, formats and tests policies. Errors quote OPA's
messages."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.opa.errors import describe
from fairlead.programs import toolchain

_SILENT = Progress()
# Of each text in the input that can be parsed: the path of its package, and those of its rules.
_PATHS = """{name: array.concat([base], rules) |
    some name, text in input
    module := rego.parse_module(name, text)
    base := [term.value | some term in module["package"].path]
    rules := [array.concat(base, [term.value | some term in rule.head.ref]) | some rule in module.rules]
}"""  # noqa: E501
_WITHIN = 120
"""Seconds that OPA gets; the whole test suite takes less than one."""


@dataclass(frozen=True)
class Tested:
    """What `opa test` found: how many tests passed, the names of those that did not, and what no
    test reached.

    `coverage` is in percent of the lines, `uncovered` lists `file:line` and `file:first-last`;
    where a test failed, OPA measures neither: 0 and empty.
    """

    passed: int
    failed: tuple[str, ...]
    coverage: float
    uncovered: tuple[str, ...]


def evaluate(
    query: str,
    *,
    modules: Mapping[str, str],
    data: Mapping[str, Any],
    input: Any = None,
    progress: Progress = _SILENT,
) -> Any:
    """The value of `query` by `opa eval`; None where it is undefined.

    `modules` are Rego texts by a name that messages use, `data` is the base document. None as
    `input` means no input. Raises FairleadError with what OPA says where it fails.
    """
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        at = Path(folder)
        for name, text in modules.items():
            (at / name).write_text(text, encoding="utf-8")
        (at / "data.json").write_text(_json(data), encoding="utf-8")
        arguments: list[str] = ["eval", "--format=json", f"--data={at}", query]
        if input is not None:
            (at / "input").write_text(_json(input), encoding="utf-8")
            arguments[1:1] = [f"--input={at / 'input'}"]
        answer = _json_of(_run(arguments, at, progress), "opa eval")
    if answer.get("errors"):
        problems = describe(answer).replace(f"{folder}/", "")
        raise FairleadError(f"OPA cannot evaluate {query}: {problems}")
    result = answer.get("result")
    return result[0]["expressions"][0]["value"] if result else None


def check(folder: Path, schemas: Path, progress: Progress = _SILENT) -> None:
    """`opa check --strict` with the schemas of a folder. Raises FairleadError with OPA's
    file:line messages.
    """
    completed = _run(
        ["check", "--strict", "--schema", _shown(schemas), _shown(folder)], paths.root(), progress
    )
    if completed.returncode:
        raise FairleadError(f"opa check: {_said(completed)}")


def move(
    modules: Mapping[str, str], packages: Mapping[str, str], progress: Progress = _SILENT
) -> dict[str, str]:
    """The modules, name -> text, with `packages` (old path -> new one, without `data`) renamed
    wherever they are used.

    Raises FairleadError with what OPA says.
    """
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        at = Path(folder)
        for name, text in modules.items():
            (at / name).write_text(text, encoding="utf-8")
        mapping = [f"--path=data.{old}:data.{new}" for old, new in sorted(packages.items())]
        completed = _run(["refactor", "move", "--write", *mapping, str(at)], at, progress)
        if completed.returncode:
            raise FairleadError(f"opa refactor move: {_said(completed).replace(f'{folder}/', '')}")
        return {name: (at / name).read_text(encoding="utf-8") for name in modules}


def paths_of(
    modules: Mapping[str, str], progress: Progress = _SILENT
) -> dict[str, list[list[str]]]:
    """What each module defines, name -> the path of its package and of each rule from `data` on,
    however it is spelt.

    A module that cannot be parsed is left out. Raises FairleadError where OPA cannot be asked.
    """
    paths = evaluate(_PATHS, modules={}, data={}, input=dict(modules), progress=progress)
    return {
        name: [[str(part) for part in path] for path in listed]
        for name, listed in (paths or {}).items()
    }


def fmt(folder: Path, progress: Progress = _SILENT) -> list[str]:
    """The files below `folder` that `opa fmt` would change. Raises FairleadError where one
    cannot be parsed.
    """
    completed = _run(["fmt", "--list", _shown(folder)], paths.root(), progress)
    if completed.returncode:
        raise FairleadError(f"opa fmt: {_said(completed)}")
    return sorted(completed.stdout.split())


def test(folder: Path, progress: Progress = _SILENT) -> Tested:  # noqa: PT028 - no test of pytest's
    """Runs every test below `folder`. Raises FairleadError with OPA's message where the policies
    do not compile.
    """
    completed = _run(["test", "--format=json", _shown(folder)], paths.root(), progress)
    results = _json_of(completed, "opa test")
    if not results:
        raise FairleadError(f"opa test: {_shown(folder)} holds no tests")
    # they run in parallel
    results.sort(key=lambda result: (result["location"]["file"], result["location"]["row"]))
    failed = tuple(
        _failure(result) for result in results if result.get("fail") or result.get("error")
    )
    passed = sum(
        not (result.get("fail") or result.get("error") or result.get("skip")) for result in results
    )
    if failed:
        return Tested(passed, failed, 0.0, ())
    # OPA reports coverage instead of the results, and only where none failed.
    report = _json_of(
        _run(["test", "--coverage", "--format=json", _shown(folder)], paths.root(), progress),
        "opa test",
    )
    return Tested(passed, failed, float(report.get("coverage", 0)), tuple(_uncovered(report)))


def environment() -> dict[str, str]:
    """This process's environment, without variables that change what OPA does.

    OPA takes any flag from a variable OPA_<COMMAND>_<FLAG>; policies read FAIRLEAD_ variables.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPA_", "FAIRLEAD_"))
    }


def _run(
    arguments: Sequence[str], folder: Path, progress: Progress
) -> subprocess.CompletedProcess[str]:
    program = toolchain.ensure(["opa"], progress)["opa"]
    try:
        return subprocess.run(
            [program, *arguments],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FairleadError(f"opa {arguments[0]} did not end within {_WITHIN} s") from error
    except OSError as error:
        raise FairleadError(
            f"{program} cannot be started ({error.strerror}): is it of this machine's kind?"
        ) from error


def _json(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise FairleadError(f"cannot be handed to OPA as JSON: {error}") from error


def _json_of(completed: subprocess.CompletedProcess[str], what: str) -> Any:
    try:
        return json.loads(completed.stdout)
    except ValueError as error:
        raise FairleadError(
            f"{what}: {_said(completed) or f'ended with {completed.returncode} and no answer'}"
        ) from error


def _said(completed: subprocess.CompletedProcess[str]) -> str:
    return (completed.stderr.strip() or completed.stdout.strip()).removeprefix("error: ")


def _shown(folder: Path) -> str:
    """The folder as messages should name it: from the checkout on, where it is inside."""
    folder = folder.resolve()
    return (
        str(folder.relative_to(paths.root()))
        if folder.is_relative_to(paths.root())
        else str(folder)
    )


def _failure(result: Mapping[str, Any]) -> str:
    location = result["location"]
    error = result.get("error")
    reason = (
        f" ({error.get('message', error) if isinstance(error, dict) else error})" if error else ""
    )
    return f"{location['file']}:{location['row']}: {result['package']}.{result['name']}{reason}"


def _uncovered(report: Mapping[str, Any]) -> list[str]:
    lines = []
    for file, covered in sorted(report.get("files", {}).items()):
        for part in covered.get("not_covered", ()):
            first, last = part["start"]["row"], part["end"]["row"]
            lines.append(f"{file}:{first}" if first == last else f"{file}:{first}-{last}")
    return lines

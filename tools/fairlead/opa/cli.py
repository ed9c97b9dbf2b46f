"""Runs the program `opa`, which evaluates, checks, formats and tests policies."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.opa.errors import BrokenPolicies, describe
from fairlead.opa.module_names import ModuleName
from fairlead.programs import toolchain

_SILENT = Progress()
# For each text in the input that can be parsed: the paths of its package and of its rules.
_PATHS = """{name: array.concat([base], rules) |
    some name, text in input
    module := rego.parse_module(name, text)
    base := [term.value | some term in module["package"].path]
    rules := [array.concat(base, [term.value | some term in rule.head.ref]) | some rule in module.rules]
}"""  # noqa: E501
_MISTAKE = re.compile(
    r"(\S+\.rego):(\d+): ((?:rego|eval)_\w+: .*(?:\n(?!\S+\.rego:|\d+ error).*)*)"
)
"""How OPA names a mistake in a module: in lines of text, or in the middle of one."""
_WITHIN = 600
"""Seconds within which `opa` must end. The tests of all policies take ten, and a hundred on a
machine with five times the work that it can do."""


@dataclass(frozen=True)
class _Limits:
    """The end of all programs (time.monotonic), and the most MiB of memory of each."""

    end: float
    memory: int


_LIMITS: ContextVar[_Limits | None] = ContextVar("limits", default=None)
_AT_ONCE = BoundedSemaphore(2)
"""The programs with limits that run at once: their memory is that of one container."""


@contextmanager
def limits(*, seconds: float, memory: int) -> Iterator[None]:
    """Has every `opa` of the block end after so many seconds of the block, and use at most so many
    MiB: not everybody who sends a policy is trusted. Of all such blocks of this process, at most
    two `opa` run at once.
    """
    token = _LIMITS.set(_Limits(time.monotonic() + seconds, memory))
    try:
        yield
    finally:
        _LIMITS.reset(token)


@dataclass(frozen=True)
class Tested:
    """The result of `opa test`: how many tests passed, and the names of those that failed."""

    passed: int
    failed: tuple[str, ...]


def evaluate(
    query: str,
    *,
    modules: Mapping[str, str],
    data: Mapping[str, Any],
    input: Any = None,
    progress: Progress = _SILENT,
) -> Any:
    """The value of `query` by `opa eval`; None if it is undefined.

    `modules` are Rego texts by their names (see module_names), `data` is the base document, and an
    `input` of None means no input. Raises BrokenPolicies for mistakes in the files of modules, and
    FairleadError with OPA's message.
    """
    with _written(modules) as at:
        (at / "data.json").write_text(_json(data), encoding="utf-8")
        arguments: list[str] = ["eval", "--format=json", f"--data={at}", query]
        if input is not None:
            (at / "input").write_text(_json(input), encoding="utf-8")
            arguments[1:1] = [f"--input={at / 'input'}"]
        answer = _json_of(run(arguments, at, progress), "opa eval")
    if answer.get("errors"):
        raise failure(f"OPA cannot evaluate {query}", describe(answer), modules, at)
    result = answer.get("result")
    return result[0]["expressions"][0]["value"] if result else None


def check(folder: Path, schemas: Path, progress: Progress = _SILENT) -> None:
    """Run `opa check --strict` with the schemas of a folder. Raises BrokenPolicies with OPA's
    messages.
    """
    completed = run(
        ["check", "--strict", "--schema", _shown(schemas), _shown(folder)], paths.root(), progress
    )
    if completed.returncode:
        raise BrokenPolicies(f"opa check: {output(completed)}")


def move(
    modules: Mapping[str, str], packages: Mapping[str, str], progress: Progress = _SILENT
) -> dict[str, str]:
    """The modules, name -> text, with `packages` (old path -> new path, without `data`) renamed
    wherever they are used.

    Raises BrokenPolicies for mistakes in the files of modules, FairleadError with OPA's message.
    """
    with _written(modules) as at:
        mapping = [f"--path=data.{old}:data.{new}" for old, new in sorted(packages.items())]
        completed = run(["refactor", "move", "--write", *mapping, str(at)], at, progress)
        if completed.returncode:
            raise failure("opa refactor move", output(completed), modules, at)
        return {name: (at / name).read_text(encoding="utf-8") for name in modules}


def paths_of(
    modules: Mapping[str, str], progress: Progress = _SILENT
) -> dict[str, list[list[str]]]:
    """The paths that each module defines, by its name: of its package and of each rule, from `data`
    on.

    A module that cannot be parsed is left out. Raises FairleadError if OPA fails.
    """
    paths = evaluate(_PATHS, modules={}, data={}, input=dict(modules), progress=progress)
    return {
        name: [[str(part) for part in path] for path in module_paths]
        for name, module_paths in (paths or {}).items()
    }


def modules_used(
    modules: Mapping[str, str], queries: Sequence[str], progress: Progress = _SILENT
) -> set[str]:
    """The names of the modules with rules that the queries depend on, directly or through others. A
    reference with a variable, such as `data[x]`, depends on all that it may mean.

    Raises BrokenPolicies or FairleadError if the modules do not compile together.
    """
    rules = _dependencies("virtual", modules, queries, progress)
    # The first path is that of the package. A module without rules is never used.
    defined = paths_of(modules, progress)
    return {name for name in modules if _meet(defined[name][1:], rules)}


def _meet(paths: Iterable[list[str]], rules: Iterable[list[str]]) -> bool:
    """Whether a path and a rule are the same, or one is below the other: a rule may be defined in
    parts, such as `limits.cpu` of `limits`.
    """
    return any(path[: len(rule)] == rule[: len(path)] for path in paths for rule in rules)


def documents_used(
    modules: Mapping[str, str], queries: Sequence[str], progress: Progress = _SILENT
) -> list[list[str]]:
    """The paths, from `data` or `input` on, of the documents that no module defines and that the
    queries depend on, directly or through rules.

    Raises BrokenPolicies or FairleadError if the modules do not compile together.
    """
    return _dependencies("base", modules, queries, progress)


def fmt(folder: Path, progress: Progress = _SILENT) -> list[str]:
    """The files below `folder` that `opa fmt` would change. Raises BrokenPolicies if one cannot be
    parsed.
    """
    completed = run(["fmt", "--list", _shown(folder)], paths.root(), progress)
    if completed.returncode:
        raise BrokenPolicies(f"opa fmt: {output(completed)}")
    return sorted(completed.stdout.split())


def test(folder: Path, progress: Progress = _SILENT) -> Tested:  # noqa: PT028 - no test of pytest's
    """Run every test below `folder`. Raises FairleadError with OPA's message if the policies do not
    compile.
    """
    results = test_report(folder, progress)
    if not results:
        raise FairleadError(f"opa test: {_shown(folder)} holds no tests")
    # Tests run in parallel.
    results.sort(key=lambda result: (result["location"]["file"], result["location"]["row"]))
    failed = tuple(
        _failure(result) for result in results if result.get("fail") or result.get("error")
    )
    passed = sum(
        not (result.get("fail") or result.get("error") or result.get("skip")) for result in results
    )
    return Tested(passed, failed)


def test_report(folder: Path, progress: Progress, *flags: str) -> Any:
    """The JSON that `opa test` prints for the tests below `folder`."""
    # Cases and custom resources are YAML, which OPA would take for data.
    # By default a test has five seconds, which is too short on a busy machine.
    arguments = ["test", "--format=json", f"--timeout={_WITHIN}s", "--ignore=*.yaml,*.yml"]
    arguments += [*flags, _shown(folder)]
    return _json_of(run(arguments, paths.root(), progress), "opa test")


def environment() -> dict[str, str]:
    """This process's environment, without variables that change what OPA does.

    OPA takes any flag from a variable OPA_<COMMAND>_<FLAG>; policies read FAIRLEAD_ variables.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPA_", "FAIRLEAD_"))
    }


def processors() -> int:
    """How many `opa` may run at once for one task: one within `limits`."""
    return 1 if _LIMITS.get() else os.cpu_count() or 1


def _dependencies(
    kind: str, modules: Mapping[str, str], queries: Sequence[str], progress: Progress
) -> list[list[str]]:
    """What `opa deps` lists of this kind."""
    with _written(modules) as at:
        arguments = ["deps", "--format=json", f"--data={at}", "; ".join(queries)]
        completed = run(arguments, at, progress)
        if completed.returncode:
            raise failure("opa deps", output(completed), modules, at)
    documents = _json_of(completed, "opa deps").get(kind) or ()
    return [[str(term["value"]) for term in path] for path in documents]


def failure(action: str, problems: str, modules: Mapping[str, str], folder: Path) -> FairleadError:
    """The error for what OPA says of modules in a folder: about a mistake in a file, that alone."""
    problems = problems.replace(f"{folder}/", "")
    names = {str(name): name for name in modules if isinstance(name, ModuleName)}
    places = [
        f"{names[file].place(row)}: {problem}"
        for file, row, problem in _MISTAKE.findall(problems)
        if file in names
    ]
    if places:
        return BrokenPolicies("\n".join(dict.fromkeys(places)))
    return FairleadError(f"{action}: {problems}")


def run(
    arguments: Sequence[str], folder: Path, progress: Progress = _SILENT
) -> subprocess.CompletedProcess[str]:
    """The program with these arguments, run in a folder. Raises FairleadError if it does not end,
    or cannot be started.
    """
    program = toolchain.ensure(["opa"], progress)["opa"]
    limited = _LIMITS.get()
    if limited is None:
        return _run(program, arguments, folder, None)
    with _AT_ONCE:
        return _run(program, arguments, folder, limited)


def _run(
    program: Path, arguments: Sequence[str], folder: Path, limited: _Limits | None
) -> subprocess.CompletedProcess[str]:
    variables, within = environment(), float(_WITHIN)
    if limited:
        within = max(0.1, limited.end - time.monotonic())
        variables |= {"GOMEMLIMIT": f"{limited.memory * 3 // 4}MiB", "GOMAXPROCS": "1"}
    try:
        with subprocess.Popen(
            [program, *arguments],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            if limited:
                _limit_memory(process.pid, limited.memory)
            try:
                printed, errors = process.communicate(timeout=within)
            except BaseException:
                process.kill()
                raise
        if limited and ("out of memory" in errors or "cannot allocate" in errors):
            raise FairleadError(f"opa {arguments[0]} needs more than {limited.memory} MiB")
        return subprocess.CompletedProcess(process.args, process.returncode, printed, errors)
    except subprocess.TimeoutExpired as error:
        raise FairleadError(f"opa {arguments[0]} did not end within {within:.0f} s") from error
    except OSError as error:
        raise FairleadError(
            f"{program} cannot be started ({error.strerror}): is it built for this "
            "machine's processor?"
        ) from error


def _limit_memory(pid: int, memory: int) -> None:
    """Limit the memory (MiB) of a process that has just started."""
    size = memory * 1024 * 1024
    with contextlib.suppress(ProcessLookupError):  # it has ended
        if sys.platform == "linux":
            # Not the address space, of which Go reserves much more than it uses.
            resource.prlimit(pid, resource.RLIMIT_DATA, (size, size))


@contextmanager
def _written(modules: Mapping[str, str]) -> Iterator[Path]:
    """A temporary folder with the modules, name -> text."""
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        for name, text in modules.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        yield Path(folder)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise FairleadError(f"cannot be handed to OPA as JSON: {error}") from error


def _json_of(completed: subprocess.CompletedProcess[str], action: str) -> Any:
    try:
        return json.loads(completed.stdout)
    except ValueError as error:
        raise FairleadError(
            f"{action}: {output(completed) or f'ended with {completed.returncode} and no answer'}"
        ) from error


def output(completed: subprocess.CompletedProcess[str]) -> str:
    """The message of the program."""
    return (completed.stderr.strip() or completed.stdout.strip()).removeprefix("error: ")


def _shown(folder: Path) -> str:
    """The folder as messages show it: relative to the checkout if it is inside."""
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

"""The steps of `fairlead test` in a checkout: policies compiled, formatted, linted, tested and
covered; code linted, typed and tested."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fairlead.checks import steps
from fairlead.checks.steps import Result
from fairlead.common import paths
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import review_limits
from fairlead.opa import cli
from fairlead.policy import contract, generated, policy_files
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.models import Settings
from lab import coverage, developers, project_tables
from lab.engines import matrix

COVERAGE = 100.0
"""Percent of the policies' lines that their tests must reach."""

SLOWEST = 15
"""The number of tests that the end of a run names, the slowest first."""

# The tests that share a cluster, and those of a file, run in one process. Much of their time is
# waiting for a cluster, so there are two processes for each core. The groups run in the order of
# the root's conftest.py, the longest first: pytest-xdist would begin with those that have most
# tests, which are short.
_PYTEST = (
    f"--numprocesses={min(4, 2 * (os.cpu_count() or 1))}",
    *("--dist=loadgroup", "--no-loadscope-reorder"),
    f"--durations={SLOWEST}",
)
_WITHOUT_LABORATORY = ("-m", "not lab")
_CODE = ("tools", "lab", "policies", "integration", "testdata", "conftest.py", "setup.py")
_PACKAGES = {
    "ruff": ("ruff",),
    "ruff format": ("ruff",),
    "imports": ("importlinter",),
    "mypy": ("mypy",),
    "pytest": ("pytest", "xdist"),
}
# One run of mypy for each folder with a conftest.py: mypy accepts each module name only once.
_TYPED = (
    ("--package=fairlead",),
    ("--package=lab", "--exclude=^lab/tests/"),
    ("lab/tests",),
    ("tools/tests", "--exclude=^tools/tests/(clusters/embedded|programs/toolchain|sync)/"),
    ("tools/tests/clusters/embedded",),
    ("tools/tests/programs/toolchain",),
    ("tools/tests/sync",),
    ("integration/tests",),
    ("--explicit-package-bases", "policies"),  # their files have equal names
    ("conftest.py", "setup.py", "integration/image/collect.py"),
    ("testdata/samples/python-webhook/webhook.py",),
)


def run(
    selected: Iterable[str] | None,
    arguments: Iterable[str],
    *,
    laboratory: bool = False,
    progress: Progress,
) -> Iterator[Result]:
    """Run the `selected` steps (all by default), also after one has failed. `arguments` go to
    pytest, which runs the tests with the mark `lab` only with `laboratory`.

    Raises UsageError for an unknown step, or if a package of the extra `dev` is missing.
    """
    chosen = () if laboratory else _WITHOUT_LABORATORY
    every = _steps([*chosen, *arguments], progress)
    names = list(selected or every)
    for name in names:
        if name not in every:
            raise UsageError(f"no step {name!r}: one of {', '.join(every)}")
    for name in names:
        developers.require(f"the step {name}", *_PACKAGES.get(name, ()))
    yield from steps.run({name: every[name] for name in names}, progress)


def _steps(arguments: list[str], progress: Progress) -> dict[str, Callable[[], str]]:
    python = [sys.executable, "-m"]
    return {
        "opa check": lambda: _check(progress),
        "opa fmt": lambda: _formatted(progress),
        "regal": lambda: _linted(progress),
        "opa test": lambda: _tested(progress),
        "ruff": lambda: _program([*python, "ruff", "check", "--quiet", *_CODE]),
        "ruff format": lambda: _program([*python, "ruff", "format", "--check", "--quiet", *_CODE]),
        "imports": lambda: _program(
            [str(Path(sys.executable).with_name("lint-imports")), "--no-logo"]
        ),
        "mypy": lambda: _typed([*python, "mypy", "--no-error-summary"]),
        "pytest": lambda: _program([*python, "pytest", *_PYTEST, *arguments], shown=True),
    }


def _check(progress: Progress) -> str:
    policies = PolicySet.examples(Settings())
    contract.require(policies, progress)
    cli.check(policy_files.builtin(), paths.root() / "tools" / "schemas", progress)
    texts = {
        **generated.texts(policies, policies.folders),
        **project_tables.texts(),
        **matrix.texts(),
        **review_limits.texts(),
    }
    if outdated := generated.outdated(texts):
        names = ", ".join(str(path.relative_to(paths.root())) for path in outdated)
        raise FairleadError(f"not as what they are made from says: {names}; run `make generate`")
    return ""


def _formatted(progress: Progress) -> str:
    if changed := cli.fmt(policy_files.builtin(), progress):
        raise FairleadError(f"not formatted: {', '.join(changed)}; run `opa fmt -w policies`")
    return ""


def _linted(progress: Progress) -> str:
    """Lint the policies by the rules of `.regal/config.yaml`."""
    regal = toolchain.ensure([toolchain.REGAL], progress)[toolchain.REGAL]
    folder = policy_files.builtin().relative_to(paths.root())  # as the configuration names files
    return _program([str(regal), "lint", "--no-color", str(folder)])


def _tested(progress: Progress) -> str:
    result = cli.test(policy_files.builtin(), progress)
    if result.failed:
        raise FairleadError("failed: " + "; ".join(result.failed))
    reached = coverage.measure(policy_files.builtin(), progress)
    if reached.percent < COVERAGE:
        raise FairleadError(
            f"{reached.percent} % of the lines are covered; no test reaches: "
            f"{', '.join(reached.uncovered)}"
        )
    return f"{result.passed} tests, {reached.percent:g} % of the lines"


def _typed(mypy: list[str]) -> str:
    """Check the types of all code. Raises FairleadError with all errors."""
    errors = []
    for arguments in _TYPED:
        try:
            _program([*mypy, *arguments])
        except FairleadError as error:
            errors.append(str(error))
    if errors:
        raise FairleadError("\n".join(errors))
    return ""


def _program(argv: list[str], *, shown: bool = False) -> str:
    """Run a checker; with `shown`, its output goes to the terminal. Raises FairleadError with its
    output if it fails.
    """
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    # Shown output goes to stderr, because stdout is only for the results.
    streams = {"stdout": sys.stderr, "stderr": sys.stderr} if shown else {"capture_output": True}
    completed = subprocess.run(
        argv, cwd=paths.root(), env=environment, text=True, check=False, **streams
    )
    if completed.returncode:
        output = "" if shown else (completed.stdout + completed.stderr).strip()
        raise FairleadError(output or f"ended with {completed.returncode}")
    return ""

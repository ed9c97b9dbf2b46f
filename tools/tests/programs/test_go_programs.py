"""Runs the own tests of the programs that are written in Go, and checks their formatting."""

from __future__ import annotations

import subprocess
from pathlib import Path
from threading import Event

import pytest

from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.programs.toolchain import golang, programs, recipe
from fairlead.programs.toolchain.programs import Program
from lab.bench import load

pytestmark = pytest.mark.lab

PROGRAMS = [program for program in (*programs.PROGRAMS, load.PROGRAM) if program.own]


def go(program: Program, arguments: list[str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    toolchain = golang.provide(recipe.of(program).go, Progress(), Event())
    return subprocess.run(
        [toolchain.path, *arguments],
        cwd=paths.root() / program.own,
        env=toolchain.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


# With -trimpath, the packages are those that the program itself is built of.
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.own)
@pytest.mark.parametrize("command", ["test", "vet"])
def test_its_own_tests_pass(tmp_path: Path, program: Program, command: str) -> None:
    done = go(program, [command, "-trimpath", "./..."], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.own)
def test_its_sources_are_formatted_as_go_does_it(tmp_path: Path, program: Program) -> None:
    done = go(program, ["run", "cmd/gofmt", "-l", "."], tmp_path)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr

"""Runs the own tests of the programs that are written in Go, and checks their formatting."""

from __future__ import annotations

import subprocess
from pathlib import Path
from threading import Event

import pytest

from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.programs.toolchain import golang, programs, recipe

pytestmark = pytest.mark.lab

MODULES = sorted(program.module for program in programs.PROGRAMS if program.own)


def go(module: str, arguments: list[str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    toolchain = golang.provide(recipe.load(module).go, Progress(), Event())
    return subprocess.run(
        [toolchain.path, *arguments],
        cwd=paths.root() / "tools" / module,
        env=toolchain.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


# With -trimpath, the packages are those that the program itself is built of.
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("command", ["test", "vet"])
def test_its_own_tests_pass(tmp_path: Path, module: str, command: str) -> None:
    done = go(module, [command, "-trimpath", "./..."], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", MODULES)
def test_its_sources_are_formatted_as_go_does_it(tmp_path: Path, module: str) -> None:
    done = go(module, ["run", "cmd/gofmt", "-l", "."], tmp_path)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr

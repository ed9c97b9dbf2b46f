"""Runs the proxy's own tests, which are written in Go, and checks its formatting."""

from __future__ import annotations

import subprocess
from pathlib import Path
from threading import Event

import pytest

from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.programs.toolchain import golang, recipe

SOURCES = paths.root() / "tools" / "proxy"


def go(arguments: list[str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    toolchain = golang.provide(recipe.load("proxy").go, Progress(), Event())
    return subprocess.run(
        [toolchain.path, *arguments],
        cwd=SOURCES,
        env=toolchain.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.parametrize("arguments", [["test", "./..."], ["vet", "./..."]], ids=["test", "vet"])
def test_the_proxys_own_tests_pass(tmp_path: Path, arguments: list[str]) -> None:
    done = go(arguments, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_sources_are_formatted_as_go_does_it(tmp_path: Path) -> None:
    done = go(["run", "cmd/gofmt", "-l", "."], tmp_path)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr

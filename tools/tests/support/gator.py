"""Gatekeeper's command-line program `gator`, in the version that the toolchain pins."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import samples

from fairlead.programs import toolchain


def violations(*sources: Path) -> dict[str, list[str]]:
    """The messages by which `gator test` refuses objects of these files and folders, by the kinds
    and names of the objects.
    """
    names = [argument for source in sources for argument in ("--filename", str(source))]
    completed = _run("test", *names, "--output", "json")
    messages: dict[str, list[str]] = {}
    for violation in json.loads(completed.stdout) or ():
        title = samples.title(violation["violatingObject"])
        messages.setdefault(title, []).append(violation["msg"])
    assert completed.returncode == (1 if messages else 0), completed.stderr
    return messages


def verify(suite: Path) -> subprocess.CompletedProcess[str]:
    """Run the cases of a Suite: `gator verify`, which fails if one of them does."""
    return _run("verify", "--verbose", str(suite))


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = toolchain.ensure(["gator"])["gator"]
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=120
    )

"""Compares what is pinned with the newest that the registries have: the Go modules that programs
are built from, with the Go module proxy, and the Python packages that requirements*.in name, with
pip's index. What these need in turn follows them.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from fairlead.common import paths, yaml_files
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.programs import processes
from fairlead.programs.toolchain import golang, recipe
from fairlead.programs.toolchain.programs import PROGRAMS
from fairlead.programs.toolchain.recipe import numbers

_NAMED = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9._]*)[^\S\n]*([<=~!].*)?$", re.MULTILINE)
"""A line of requirements*.in: a package, and the versions that it may have."""


@dataclass(frozen=True)
class Pin:
    """A version that is pinned, and the newest of its registry, of the same major version. `held`
    says why it cannot be taken; None if it can.
    """

    name: str
    kind: str  # "Go module" or "Python package"
    pinned: str
    newest: str
    held: str | None = None


def older(progress: Progress) -> list[Pin]:
    """The pins that are older than the newest. Raises FairleadError if a registry does not
    answer.
    """
    progress.update("registries", "asking")
    pins = [*_of_go(progress), *_of_python()]
    progress.finish("registries", f"{len(pins)} pins are older than the newest")
    return pins


def _of_go(progress: Progress) -> Iterator[Pin]:
    folders = {program.module: program for program in PROGRAMS if not program.own}
    modules = dict(recipe.pinned(program) for program in folders.values())
    go = golang.provide((1,), progress, Event())
    here = golang.version_of(go.path) or ()
    for answer in _asked(go, [f"{path}@latest" for path in modules]):
        pinned, newest = modules[answer["Path"]], answer["Version"].removeprefix("v")
        if numbers(newest) <= numbers(pinned):
            continue
        needed = answer.get("GoVersion", "1")
        held = f"it needs Go {needed}" if numbers(needed) > here else None
        yield Pin(answer["Path"], "Go module", pinned, newest, held)


def _asked(go: golang.Go, queries: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """What the Go module proxy says of each query."""
    with tempfile.TemporaryDirectory() as nowhere:  # no go.mod is read there
        text = _output(
            [str(go.path), "list", "-m", "-e", "-json", *queries],
            go.environment(Path(nowhere)),
            nowhere,
        )
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        answer, end = decoder.raw_decode(text, at)
        if "Error" in answer:
            raise FairleadError(
                f"the newest {answer['Path']} is not known: {answer['Error']['Err']}: check the "
                "network and `go env GOPROXY`"
            )
        yield answer
        at = text.find("{", end)


def _of_python() -> Iterator[Pin]:
    """The pins of what requirements*.in name; none without a checkout."""
    limits = {
        _canonical(name): limit.strip()
        for file in sorted(paths.root().glob("requirements*.in"))
        for name, limit in _NAMED.findall(yaml_files.read_text(file))
    }
    if not limits:
        return
    command = [sys.executable, "-m", "pip", "list", "--outdated", "--format=json"]
    with tempfile.TemporaryDirectory() as nowhere:
        text = _output([*command, "--disable-pip-version-check"], os.environ, nowhere)
    listed = next((line for line in text.splitlines() if line.startswith("[")), "[]")
    for package in json.loads(listed):
        limit = limits.get(_canonical(package["name"]))
        if limit is not None:
            held = f"requirements say {limit}" if limit else None
            yield Pin(
                package["name"],
                "Python package",
                package["version"],
                package["latest_version"],
                held,
            )


def _canonical(name: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _output(argv: Sequence[str], env: Mapping[str, str], folder: str) -> str:
    lines: list[str] = []
    code = processes.run(argv, cwd=Path(folder), env=env, stop=Event(), line=lines.append)
    text = "\n".join(lines)
    if code or not text:
        raise FairleadError(f"{' '.join(argv[:4])} failed: {text}")
    return text

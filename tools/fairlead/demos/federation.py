"""The demo of placement over clusters: plays the steps of testdata/placement/demo.yaml on member
clusters of this machine, and checks after each step what runs in them."""

from __future__ import annotations

import difflib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fairlead.clusters.base import Cluster
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import files, paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.demos import running_pods
from fairlead.operations import up
from fairlead.settings.models import Settings

_DATA = "data.yaml"
_APPS = "apps"
_MEMBERS = "MEMBERS"
"""Stands in a command for `--member NAME` of each member."""
_WITHIN = 60.0
"""Seconds after a command within which the pods run that are expected."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Change(_Strict):
    """A text of data.yaml that stands there once, and what takes its place."""

    old: str
    new: str


class Step(_Strict):
    """What is done, and what has to be seen then.

    `command` are the arguments of `fairlead`. `exits` is its exit code, `prints` are texts that it
    prints. `running` are the pods that run in each member in the end, without those of Jobs, which
    have ended then.
    """

    title: str
    change: Change | None = None
    command: str | None = None
    exits: int = 0
    prints: list[str] = []
    running: dict[str, int] | None = None


class Scenario(_Strict):
    """The members, by their names in data.yaml, and the steps in their order."""

    members: list[str]
    steps: list[Step]


@dataclass(frozen=True)
class Played:
    """What was seen of a step: the diff of data.yaml, what the command printed, the pods that ran
    in each member in the end, and how many ran in all of them together when they were fewest; the
    last two only if the step says what should run.

    `problems` are sentences about what was not as expected.
    """

    diff: str
    printed: str
    running: Mapping[str, int]
    fewest: int | None
    problems: Sequence[str]
    seconds: float


def folder() -> Path:
    """The folder of the scenario in the checkout."""
    return paths.root() / "testdata" / "placement"


def scenario(source: Path) -> Scenario:
    """The scenario in the demo.yaml of a folder. Raises InputError."""
    (document,) = files.read_yaml(source / "demo.yaml")
    return document.parse(Scenario)


def copy(source: Path, target: Path) -> None:
    """Copy the manifests and the data of a scenario, which its steps change."""
    shutil.copytree(source / _APPS, target / _APPS)
    shutil.copyfile(source / _DATA, target / _DATA)


@contextmanager
def members(
    names: Sequence[str], at: Path, *, progress: Progress
) -> Iterator[dict[str, EmbeddedCluster]]:
    """The running member clusters, which end with the block unless detached. Each has one node, as
    large as data.yaml in the folder `at` says that the cluster is.

    Raises FairleadError if a cluster of this name runs already.
    """
    clusters = files.read_yaml(at / _DATA)[0].value["placement"]["clusters"]
    with ExitStack() as running:
        started = {}
        for name in names:
            progress.update(name, "starting")
            resources = {"node": clusters[name]["capacity"]}
            member = up.member(
                name, Settings(), {"node": 1}, resources=resources, progress=Progress()
            )
            started[name] = running.enter_context(member)
            progress.finish(name, "is running")
        yield started


def command_line(step: Step, names: Sequence[str]) -> str:
    """The command of the step, as in a shell; empty if it has none."""
    flags = " ".join(f"--member {name}" for name in names)
    return f"fairlead {step.command.replace(_MEMBERS, flags)}" if step.command else ""


def play(
    step: Step, clusters: Mapping[str, Cluster], at: Path, *, columns: int | None = None
) -> Played:
    """Do the step in the folder `at`, and look at what it is about. The command prints for a
    terminal with so many `columns`; None if there is none. Its progress goes to stderr.

    Raises FairleadError if data.yaml cannot be changed so.
    """
    began = time.monotonic()
    diff = _changed(at / _DATA, step.change) if step.change else ""
    line = command_line(step, list(clusters))
    code, printed = step.exits, ""
    running: Mapping[str, int] = {}
    fewest: int | None = None
    problems: list[str] = []
    if step.running is None:
        if line:
            code, printed = _run(line, at, columns)
    else:
        watched, wanted = running_pods.Watched(clusters, _namespaces(at)), step.running
        before = watched.counts()
        losing_first = sorted(clusters, key=lambda name: wanted[name] - before[name])
        with watched.meanwhile(losing_first) as meanwhile:
            code, printed = _run(line, at, columns)
        running = watched.until(wanted, _WITHIN)
        fewest, least = meanwhile.number, min(sum(before.values()), sum(wanted.values()))
        problems += [f"Job {job} has not ended" for job in watched.jobs()]
        problems += [
            f"{running[name]} pods run in {name}, not {number}"
            for name, number in wanted.items()
            if running[name] != number
        ]
        if fewest is not None and fewest < least:
            problems.append(f"only {fewest} pods ran meanwhile, not {least}")
    if code != step.exits:
        problems.append(f"the exit code is {code}, not {step.exits}")
    problems += [f"it does not print {text!r}" for text in step.prints if text not in printed]
    return Played(diff, printed, running, fewest, problems, time.monotonic() - began)


def _namespaces(at: Path) -> set[str]:
    """The namespaces of the manifests."""
    return {
        document.value["metadata"]["name"]
        for path in sorted((at / _APPS).glob("*.yaml"))
        for document in files.read_yaml(path)
        if document.value["kind"] == "Namespace"
    }


def _changed(file: Path, change: Change) -> str:
    """Change the file; returns the diff."""
    before = file.read_text(encoding="utf-8")
    if before.count(change.old) != 1:
        raise FairleadError(f"{file}: has {change.old!r} not just once: correct the step")
    after = before.replace(change.old, change.new)
    file.write_text(after, encoding="utf-8")
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), file.name, file.name, n=5, lineterm=""
    )
    return "\n".join(lines)


def _run(line: str, at: Path, columns: int | None) -> tuple[int, str]:
    """The exit code of a command line of `fairlead`, and what it prints."""
    completed = subprocess.run(
        [sys.executable, "-m", *shlex.split(line)],
        cwd=at,
        env={**os.environ, **({"COLUMNS": str(columns)} if columns else {})},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return completed.returncode, completed.stdout

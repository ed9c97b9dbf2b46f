"""The demo of placement over clusters: plays the steps of testdata/placement/demo.yaml, and applies
what is printed for Karmada and Argo CD to an API server of this machine that has their kinds."""

from __future__ import annotations

import difflib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common import paths, yaml_files
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.demos import placement_crds
from fairlead.kube import clients

CLUSTER = "federation"
"""The name of the cluster that has the API server."""
_DATA = "data.yaml"
_APPS = "apps"
_ARGOCD = "argocd"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Change(_Strict):
    """A text of data.yaml that stands there once, and what takes its place."""

    old: str
    new: str


class Step(_Strict):
    """What is done, and what has to be seen then.

    `command` are the arguments of `fairlead`. `exits` is its exit code, `prints` are texts that it
    prints. If it prints objects for an `engine`, they are applied to the API server; `applied` are
    their numbers by kind.
    """

    title: str
    change: Change | None = None
    command: str | None = None
    exits: int = 0
    prints: list[str] = []
    engine: Literal["karmada", "argocd"] | None = None
    applied: dict[str, int] = {}


class Scenario(_Strict):
    """The steps in their order."""

    steps: list[Step]


@dataclass(frozen=True)
class Server:
    """An API server with the kinds of Karmada and Argo CD. `missing` says by engine why it lacks
    the kinds of that.
    """

    objects: clients.Objects
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Played:
    """What was seen of a step: the diff of data.yaml, what the command printed, and the numbers of
    objects by kind that the API server accepted. If it lacks the kinds, `skipped` says why.

    `problems` are sentences about what was not as expected.
    """

    diff: str
    printed: str
    applied: Mapping[str, int]
    skipped: str
    problems: Sequence[str]
    seconds: float


def folder() -> Path:
    """The folder of the scenario in the checkout."""
    return paths.root() / "testdata" / "placement"


def scenario(source: Path) -> Scenario:
    """The scenario in the demo.yaml of a folder. Raises InputError."""
    (document,) = yaml_files.read_yaml(source / "demo.yaml")
    return document.parse(Scenario)


def copy(source: Path, target: Path) -> None:
    """Copy the manifests and the data of a scenario, which its steps change."""
    shutil.copytree(source / _APPS, target / _APPS)
    shutil.copyfile(source / _DATA, target / _DATA)


@contextmanager
def server(at: Path, *, progress: Progress) -> Iterator[tuple[BareCluster, Server]]:
    """A running API server with the namespaces of the manifests in the folder `at`. It ends with
    the block, unless its cluster is detached.

    Raises FairleadError if a cluster of this name runs already.
    """
    with BareCluster(CLUSTER) as cluster:
        cluster.start_control_plane(workloads=False, progress=progress)
        started = Server(cluster.objects())
        for namespace in (*_namespaces(at), _namespace(_ARGOCD)):
            started.objects.apply(namespace)
        for engine in placement_crds.NAMES:
            progress.update(engine, "looking for its kinds")
            try:
                definitions = placement_crds.definitions(engine, progress)
            except FairleadError as error:
                started.missing[engine] = str(error)
                progress.finish(engine, "not available")
                continue
            placement_crds.install(started.objects, definitions)
            progress.finish(engine, "its kinds are defined")
        yield cluster, started


def play(step: Step, api_server: Server | None, at: Path, *, columns: int | None = None) -> Played:
    """Do the step in the folder `at`, and look at what it is about. The command prints for a
    terminal with so many `columns`; None if there is none. Its progress goes to stderr. Without an
    API server, nothing is applied.

    Raises FairleadError if data.yaml cannot be changed so, or an object is not accepted.
    """
    began = time.monotonic()
    diff = _changed(at / _DATA, step.change) if step.change else ""
    code, printed, unbroken = step.exits, "", ""
    if step.command:
        code, printed = _run(step.command, at, columns)
        # A terminal's lines break within a text, so texts are looked for in lines that do not.
        unbroken = _run(step.command, at, None)[1] if columns and step.prints else printed
    problems = [f"the exit code is {code}, not {step.exits}"] if code != step.exits else []
    problems += [f"it does not print {text!r}" for text in step.prints if text not in unbroken]
    applied: dict[str, int] = {}
    skipped = ""
    if step.engine and api_server and not problems:
        skipped = api_server.missing.get(step.engine, "")
        if not skipped:
            objects = list(yaml.safe_load_all(printed))
            placement_crds.apply(api_server.objects, objects)
            applied = dict(Counter(each["kind"] for each in objects))
            if applied != step.applied:
                problems.append(f"the API server accepted {applied}, not {step.applied}")
    return Played(diff, printed, applied, skipped, problems, time.monotonic() - began)


def _namespaces(at: Path) -> list[dict[str, object]]:
    """The namespaces of the manifests."""
    return [
        document.value
        for path in sorted((at / _APPS).glob("*.yaml"))
        for document in yaml_files.read_yaml(path)
        if document.value["kind"] == "Namespace"
    ]


def _namespace(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


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


def _run(arguments: str, at: Path, columns: int | None) -> tuple[int, str]:
    """The exit code of `fairlead` with these arguments, and what it prints."""
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    if columns:
        environment["COLUMNS"] = str(columns)
    completed = subprocess.run(
        [sys.executable, "-m", "fairlead", *shlex.split(arguments)],
        cwd=at,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return completed.returncode, completed.stdout

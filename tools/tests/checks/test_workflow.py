"""The Makefile and the workflow use commands and files that exist, and pass on their variables."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.clusters import kind
from fairlead.common import paths
from fairlead.settings.images import IMAGE_VARIABLES
from lab import docker_e2e

MAKEFILE = paths.root() / "Makefile"
WORKFLOWS = paths.root() / ".github" / "workflows"
TARGETS = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE.read_text(), re.MULTILINE))


def read(name: str) -> dict[str, Any]:
    class Loader(yaml.SafeLoader):
        """Loads `on` as a string, as YAML 1.2 and GitHub do."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    document: dict[str, Any] = yaml.load((WORKFLOWS / name).read_text(), Loader)  # noqa: S506 - a SafeLoader
    return document


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    return read("ci.yaml")


@pytest.fixture(scope="module")
def nightly() -> dict[str, Any]:
    return read("nightly.yaml")


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("ci.yaml", {"push", "pull_request", "workflow_dispatch"}),
        ("nightly.yaml", {"schedule", "workflow_dispatch"}),
    ],
)
def test_a_workflow_may_only_read_and_ends(name: str, events: set[str]) -> None:
    workflow = read(name)
    assert set(workflow["on"]) == events
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    assert all(0 < job["timeout-minutes"] <= 120 for job in workflow["jobs"].values())
    checkouts = [
        step for step in steps(workflow) if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert len(checkouts) == len(workflow["jobs"])
    assert all(step["with"]["persist-credentials"] == "false" for step in checkouts)


def test_the_workflows_actions_are_githubs_own_and_pinned(
    workflow: dict[str, Any], nightly: dict[str, Any]
) -> None:
    used = [step["uses"] for step in [*steps(workflow), *steps(nightly)] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action) for action in used), used


def test_the_workflows_run_the_tests_once_and_all_of_them_at_night(
    workflow: dict[str, Any], nightly: dict[str, Any]
) -> None:
    runs = [step["run"] for step in [*steps(workflow), *steps(nightly)] if "run" in step]
    assert runs == ["make test", "make docker-e2e", "make test-all"]
    assert {run.removeprefix("make ") for run in runs} <= TARGETS


def test_the_workflows_cache_by_the_pins_and_keep_what_failed(
    workflow: dict[str, Any], nightly: dict[str, Any]
) -> None:
    cache, at_night = [
        step["with"]
        for step in [*steps(workflow), *steps(nightly)]
        if step.get("uses", "").startswith("actions/cache@")
    ]
    assert cache == at_night
    assert cache["path"] == "~/.cache/fairlead"
    (hashed,) = re.findall(r"hashFiles\('([^']+)/\*\*'\)", cache["key"])
    assert (paths.root() / hashed / "opa" / "go.sum").is_file()
    (upload,) = [step for step in steps(workflow) if "upload-artifact" in step.get("uses", "")]
    assert (upload["if"], upload["with"]["path"]) == ("failure()", docker_e2e.LOGS)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the Makefile, and programs that print how they were called."""
    shutil.copy(MAKEFILE, tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("fairlead", "python"):
        program = programs / name
        program.write_text('#!/bin/sh\necho "$FAIRLEAD_CLUSTER|$KIND_CLUSTER_NAME|$OPA_IMAGE|$*"\n')
        program.chmod(0o755)
    for name in ("requirements.txt", "pyproject.toml", ".venv/.ready"):
        (tmp_path / name).touch()
    return tmp_path


def make(checkout: Path, *arguments: str, **variables: str) -> str:
    ours = {
        "FAIRLEAD_CLUSTER",
        "KIND_CLUSTER_NAME",
        "MAKEFLAGS",
        "MAKELEVEL",
        "VENV",
        *IMAGE_VARIABLES.values(),
    }
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        ["make", "-s", *arguments],  # noqa: S607 - the user's own
        cwd=checkout,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_make_hands_variables_on_from_the_environment_and_the_command_line(checkout: Path) -> None:
    assert (
        make(checkout, "kind-start", OPA_IMAGE="a:1", KIND_CLUSTER_NAME="b")
        == "|b|a:1|up --cluster kind --no-deploy"
    )
    assert make(checkout, "kind-deploy", "OPA_IMAGE=a:1") == "||a:1|up --cluster kind"
    assert make(checkout, "kind-stop", "ARGS=--name c") == "|||down --cluster kind --name c"
    assert make(checkout, "logs", FAIRLEAD_CLUSTER="context") == "context|||logs opa"


def test_make_means_the_kind_cluster_where_it_is_the_only_one(checkout: Path) -> None:
    assert make(checkout, "update-rego") == "embedded|||push"
    assert make(checkout, "integration") == "embedded|||verify"
    made = checkout / ".fairlead" / "kind-fairlead"
    made.mkdir(parents=True)
    assert make(checkout, "update-rego") == "embedded|||push", (
        "one that is being made counts for nothing"
    )
    (made / "containers.json").touch()
    assert make(checkout, "update-rego") == "kind|||push"
    assert make(checkout, "logs-sidecar") == "kind|||logs sidecar"
    assert make(checkout, "integration") == "kind|||-m lab e2e"
    assert make(checkout, "logs", "FAIRLEAD_CLUSTER=embedded") == "embedded|||logs opa"
    assert make(checkout, "test") == "|||test", "the tests change what they run on"
    (checkout / ".fairlead" / "fairlead").mkdir()
    assert make(checkout, "update-rego") == "embedded|||push"


def test_help_and_the_documentation_tell_every_variable(checkout: Path) -> None:
    variables = {
        "FAIRLEAD_CLUSTER",
        "KIND_CLUSTER_NAME",
        "KIND_CONFIG",
        "KIND_NODE_IMAGE",
        "BASE_IMAGE",
    }
    variables |= set(IMAGE_VARIABLES.values())
    help_text = make(checkout, "help")
    assert set(re.findall(r"^([A-Z_]+) ", help_text, re.MULTILINE)) == variables
    assert max(map(len, help_text.splitlines())) <= 80
    page = (paths.root() / "docs" / "kind.md").read_text()
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE)) >= variables
    for text in (help_text, page):
        assert kind.NODE_IMAGE in text


def test_the_documentation_names_targets_that_are_there() -> None:
    page = (paths.root() / "docs" / "kind.md").read_text()
    named = set(re.findall(r"`make ([a-z0-9-]+)", page))
    assert named <= TARGETS
    assert named >= {
        "kind-start",
        "kind-deploy",
        "integration",
        "update-rego",
        "force-update-rego",
        "logs",
    }
    assert named >= {"logs-sidecar", "kind-stop", "docker-e2e", "image"}

"""devcontainer.json agrees with the Dockerfile and the Makefile, and uses only keys of the
specification."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest

from fairlead.common import paths

FOLDER = paths.root() / ".devcontainer"
# Of the specification (containers.dev/implementors/json_reference), those for an image that is
# built.
KEYS = {
    "name",
    "build",
    "workspaceFolder",
    "workspaceMount",
    "remoteUser",
    "mounts",
    "runArgs",
    "customizations",
}
KEYS |= {"onCreateCommand", "postCreateCommand"}


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    """Parses JSON with comments, each on its own line."""
    loaded: dict[str, Any] = json.loads(
        re.sub(r"^\s*//.*$", "", (FOLDER / "devcontainer.json").read_text(), flags=re.M)
    )
    return loaded


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return (FOLDER / "Dockerfile").read_text()


def test_its_keys_are_those_of_the_specification(config: dict[str, Any]) -> None:
    assert set(config) == KEYS
    assert set(config["customizations"]["vscode"]) == {"extensions", "settings"}


def test_it_builds_the_image_that_docker_e2e_runs_in(config: dict[str, Any]) -> None:
    assert (FOLDER / config["build"]["dockerfile"]).is_file()
    assert (FOLDER / config["build"]["context"]).resolve() == paths.root()


def test_user_and_folder_are_those_of_the_image(config: dict[str, Any], dockerfile: str) -> None:
    assert re.findall(r"^USER (\S+)$", dockerfile, re.MULTILINE)[-1] == config["remoteUser"]
    assert re.findall(r"^WORKDIR (\S+)$", dockerfile, re.MULTILINE)[-1] == config["workspaceFolder"]
    assert f"target={config['workspaceFolder']}," in config["workspaceMount"]


def test_its_commands_are_there(config: dict[str, Any], dockerfile: str) -> None:
    script = config["onCreateCommand"].removeprefix("sudo ")
    assert f"/usr/local/sbin/{script}\n" in dockerfile
    assert f"NOPASSWD: /usr/local/sbin/{script} " in dockerfile
    assert (FOLDER / script).stat().st_mode & 0o111
    target = config["postCreateCommand"].removeprefix("make ")
    assert re.search(rf"^{target}:", (paths.root() / "Makefile").read_text(), re.MULTILINE)


def test_the_socket_of_docker_is_where_its_client_looks(config: dict[str, Any]) -> None:
    assert config["mounts"] == ["source=/var/run/docker.sock,target=/var/run/docker.sock,type=bind"]


def test_editors_find_the_tests_the_interpreter_and_opa(
    config: dict[str, Any], dockerfile: str
) -> None:
    vscode = config["customizations"]["vscode"]
    assert set(vscode["extensions"]) == {"tsandall.opa", "ms-python.python"}
    settings = vscode["settings"]
    pytest_options = tomllib.loads((paths.root() / "pyproject.toml").read_text())["tool"]["pytest"][
        "ini_options"
    ]
    assert settings["python.testing.pytestEnabled"] is True
    assert settings["python.testing.pytestArgs"] == pytest_options["testpaths"]
    home = re.search(r"HOME=(\S+)", dockerfile)
    venv = re.search(r"VENV=(\S+)", dockerfile)
    assert home
    assert venv
    assert settings["python.defaultInterpreterPath"] == f"{venv[1]}/bin/python"
    assert settings["opa.dependency_paths.opa"] == f"{home[1]}/.local/bin/opa"
    for key in ("opa.schema", "opa.roots"):
        for path in [settings[key]] if isinstance(settings[key], str) else settings[key]:
            assert (paths.root() / path.removeprefix("${workspaceFolder}/")).is_dir()

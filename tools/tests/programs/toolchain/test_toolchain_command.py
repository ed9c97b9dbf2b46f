"""`fairlead tools` as a user runs it."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner
from toolchain_world import DEADLINE, World, said

from fairlead.cli.tools import command
from fairlead.common.errors import UsageError
from fairlead.programs import toolchain


def run(*arguments: str) -> str:
    """The command's stdout."""
    result = CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)
    return result.stdout


def test_the_list_names_every_program_and_builds_nothing(world: World) -> None:
    path = world.program("kwok", said("kwok"))
    lines = {line["name"]: line for line in json.loads(run("-o", "json"))}
    assert tuple(lines) == toolchain.NAMES
    assert lines["kwok"] | {"version": ""} == {
        "name": "kwok",
        "version": "",
        "source": "PATH",
        "state": "ready",
        "path": str(path),
    }
    assert lines["opa"]["state"] == "not built"
    assert yaml.safe_load(run("-o", "yaml")) == list(lines.values())
    assert all(name in run() for name in toolchain.NAMES)
    assert not world.cache.exists()


def test_path_prints_only_where_the_program_is(world: World) -> None:
    world.go()
    path = run("--path", "opa")
    assert path == f"{toolchain.ensure(['opa'])['opa']}\n"


def test_build_builds_those_named_and_shows_them(world: World) -> None:
    world.go()
    lines = json.loads(run("--build", "opa", "kubectl", "-o", "json"))
    assert [(line["name"], line["source"]) for line in lines] == [
        ("opa", "cache"),
        ("kubectl", "cache"),
    ]
    assert world.files() == ["kubectl", "opa"]


def test_build_without_names_builds_all(world: World) -> None:
    world.go()
    run("--build")
    assert world.files() == sorted(toolchain.NAMES)


@pytest.mark.parametrize("arguments", [("--path", "opa", "etcd"), ("--path", "opa", "--build")])
def test_path_stands_alone(world: World, arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="--path takes one program"):
        run(*arguments)


def test_an_unknown_name_exits_with_2_and_no_traceback(world: World) -> None:
    process = world.start("tools", "--path", "helm")
    output, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, output) == (2, "")
    assert "no program is called helm; there are opa, etcd" in errors
    assert "Traceback" not in errors

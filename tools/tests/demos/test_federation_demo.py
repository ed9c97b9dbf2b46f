"""The steps of the demo of placement: what they expect is what OPA decides."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import refused

from fairlead.cli.placement.place import command
from fairlead.common import files
from fairlead.common.errors import FairleadError
from fairlead.demos import federation as demo

SCENARIO = demo.scenario(demo.folder())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    demo.copy(demo.folder(), tmp_path)
    return tmp_path


def decided(folder: Path) -> dict[str, int]:
    """The replicas of each cluster, without those of Jobs."""
    data, apps = (str(folder / name) for name in ("data.yaml", "apps"))
    result = CliRunner().invoke(
        command, ["--data", data, "-f", apps, "-ojson"], standalone_mode=False
    )
    assert (result.exception, result.return_value) == (None, 0)
    replicas: Counter[str] = Counter()
    for row in json.loads(result.stdout):
        if row["kind"] != "Job":
            replicas.update({name: each["replicas"] for name, each in row["clusters"].items()})
    return dict(replicas)


def test_what_has_to_run_is_what_opa_decides(folder: Path) -> None:
    compared = 0
    for step in SCENARIO.steps:
        played = demo.play(step.model_copy(update={"command": None, "running": None}), {}, folder)
        assert bool(played.diff) == bool(step.change)
        if step.running is not None:
            assert step.running == decided(folder)
            assert list(step.running) == SCENARIO.members
            compared += 1
    assert compared == 2


def test_the_scenario_has_what_the_docs_promise() -> None:
    data = files.read_yaml(demo.folder() / "data.yaml")[0].value["placement"]
    apps = [
        document.value
        for path in sorted((demo.folder() / "apps").glob("*.yaml"))
        for document in files.read_yaml(path)
    ]
    assert len(data["clusters"]) == 6
    assert len({cluster["jurisdiction"] for cluster in data["clusters"].values()}) == 3
    assert len(data["customers"]) == 8
    assert len([each for each in apps if each["kind"] != "Namespace"]) == 30


def test_a_command_names_each_member() -> None:
    step = demo.Step(title="run", command="place -f apps --apply MEMBERS")
    assert demo.command_line(step, ["a", "b"]) == (
        "fairlead place -f apps --apply --member a --member b"
    )


def test_a_command_that_ends_otherwise_is_told(folder: Path) -> None:
    step = demo.Step(title="look", command="place -f nowhere", prints=["CLUSTER"])
    played = demo.play(step, {}, folder)
    assert played.problems == ["the exit code is 2, not 0", "it does not print 'CLUSTER'"]


def test_a_change_of_what_is_not_there_is_refused(folder: Path) -> None:
    before = (folder / "data.yaml").read_text()
    for old in ("no such text", "cordoned: false"):
        with pytest.raises(FairleadError, match="not just once"):
            demo.play(demo.Step(title="x", change=demo.Change(old=old, new="y")), {}, folder)
    assert (folder / "data.yaml").read_text() == before


@pytest.mark.parametrize("flags", [("--name", "x"), ("--engine", "cel")])
def test_options_of_the_demo_of_node_pools_are_refused(flags: tuple[str, str]) -> None:
    assert f"{flags[0]} is for the demo of node pools" in refused("demo", "--federation", *flags)

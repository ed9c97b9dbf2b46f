"""The steps of the demo of placement: what they expect is what the commands print."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NoReturn

import pytest
import yaml
from command_line import refused

from fairlead.common import yaml_files
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.demos import federation as demo
from fairlead.demos import placement_crds
from fairlead.kube import clients
from fairlead.programs import toolchain

SCENARIO = demo.scenario(demo.folder())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    demo.copy(demo.folder(), tmp_path)
    return tmp_path


def test_every_step_prints_what_it_should(folder: Path) -> None:
    for step in SCENARIO.steps:
        played = demo.play(step, None, folder, columns=80)
        assert played.problems == []
        assert bool(played.diff) == bool(step.change)
        kinds = (object_["kind"] for object_ in yaml.safe_load_all(played.printed))
        assert not step.engine or Counter(kinds) == step.applied


def test_the_scenario_has_what_the_docs_promise() -> None:
    data = yaml_files.read_yaml(demo.folder() / "data.yaml")[0].value["placement"]
    apps = [
        document.value
        for path in sorted((demo.folder() / "apps").glob("*.yaml"))
        for document in yaml_files.read_yaml(path)
    ]
    assert len(data["clusters"]) == 6
    assert len({cluster["jurisdiction"] for cluster in data["clusters"].values()}) == 3
    assert len(data["customers"]) == 8
    assert len([each for each in apps if each["kind"] != "Namespace"]) == 30


def test_without_the_kinds_of_an_engine_the_demo_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that downloads no Go modules."""

    def unavailable(*_: object) -> NoReturn:
        raise FairleadError("the sources could not be downloaded")

    monkeypatch.setattr(toolchain, "released", unavailable)
    with pytest.raises(FairleadError, match="Or name a checkout by FAIRLEAD_KARMADA"):
        placement_crds.definitions("karmada", Progress())
    server = demo.Server(clients.Objects.__new__(clients.Objects), {"karmada": "no sources"})
    step = demo.Step(title="apply", command="place -f apps -o karmada", engine="karmada")
    played = demo.play(step, server, folder)
    assert (played.skipped, played.problems) == ("no sources", [])


def test_a_command_that_ends_otherwise_is_told(folder: Path) -> None:
    step = demo.Step(title="look", command="place -f nowhere", prints=["CLUSTER"])
    played = demo.play(step, None, folder)
    assert played.problems == ["the exit code is 2, not 0", "it does not print 'CLUSTER'"]


def test_a_change_of_what_is_not_there_is_refused(folder: Path) -> None:
    before = (folder / "data.yaml").read_text()
    for old in ("no such text", "cordoned: false"):
        with pytest.raises(FairleadError, match="not just once"):
            demo.play(demo.Step(title="x", change=demo.Change(old=old, new="y")), None, folder)
    assert (folder / "data.yaml").read_text() == before


@pytest.mark.parametrize("flags", [("--name", "x"), ("--engine", "cel")])
def test_options_of_the_demo_of_node_pools_are_refused(flags: tuple[str, str]) -> None:
    assert f"{flags[0]} is for the demo of node pools" in refused("demo", "--federation", *flags)

"""The samples of `fairlead convert`: the settings that it writes, and what the real engines decide
by them."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from command_line import fairlead

from fairlead.common import paths, yaml_files
from fairlead.common.progress import Progress
from fairlead.convert import conversion
from fairlead.engines.base import Engine
from fairlead.engines.python.engine import PythonEngine
from fairlead.policy import cases, fairlead_yaml
from fairlead.policy.cases import Case
from fairlead.verification import verify
from fairlead.verification.opa import OpaEngine

FOLDER = paths.root() / "testdata" / "convert"
SAMPLES = sorted(path.name for path in FOLDER.iterdir())
PARTLY = ("partly",)
"""The samples of which something is not taken over."""


def of_sample(sample: str) -> list[Case]:
    """The cases of a sample, under the settings that belong to it."""
    path = FOLDER / sample / "fairlead.yaml"
    (document,) = yaml_files.read_yaml(path)
    settings = fairlead_yaml.parse(document)
    return [
        dataclasses.replace(case, settings=settings, given=document.value)
        for case in cases.load(FOLDER / sample / "cases.yaml")
    ]


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_settings_of_a_sample_are_those_beside_it(
    sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER / sample)
    result = conversion.convert([Path("input.yaml")], Progress())
    assert result.text == Path("fairlead.yaml").read_text()
    assert bool(result.not_taken_over) == (sample in PARTLY)


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("engine", [OpaEngine, PythonEngine])
def test_engines_decide_by_these_settings_as_the_cases_say(
    sample: str, engine: type[Engine]
) -> None:
    asked = of_sample(sample)
    results = verify.verify(asked, [engine()], Progress())
    assert [result for result in results if result.passed is not True] == []
    assert len(results) == len(asked) > 1


def test_the_command_prints_the_settings_and_says_what_is_left_out() -> None:
    done = fairlead("convert", FOLDER / "partly" / "input.yaml")
    assert done.returncode == 1
    assert 'input.yaml:10: not taken over: ClusterPolicy "mixed" rule "no-latest"' in done.stderr
    assert "then run: kubectl get namespaces" in done.stderr
    assert done.stdout.startswith("# Made by `fairlead convert`.")
    done = fairlead("convert", "-o", "json", FOLDER / "kyverno" / "input.yaml")
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert sorted(result) == [
        "assumptions",
        "differences",
        "nextSteps",
        "notTakenOver",
        "settings",
    ]
    assert result["settings"]["pools"]["web"] == {"nodeSelector": {"tier": "web"}}
    assert "kubectl label namespace shop agentpool=web" in result["nextSteps"]
    assert result["notTakenOver"] == []


def test_the_example_of_the_page_is_what_the_command_prints(tmp_path: Path) -> None:
    page = (paths.root() / "docs" / "convert.md").read_text()
    policy, settings = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "assign.yaml"
    path.write_text(policy)
    assert conversion.convert([path], Progress()).text == settings

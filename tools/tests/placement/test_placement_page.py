"""What docs/placement.md shows is what the commands print."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft7Validator

from fairlead.cli.placement.place import command
from fairlead.common import paths
from fairlead.opa import cli
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

pytestmark = pytest.mark.lab

PAGE = (paths.root() / "docs" / "placement.md").read_text()
SCENARIO = paths.root() / "testdata" / "placement"
PRINTED = re.findall(r"<!-- printed by: fairlead place (.*?) -->\n```\n(.*?)```", PAGE, re.DOTALL)
ANSWERED = re.findall(r"<!-- answer for: (\S+) (\S+) -->\n```json\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("arguments", "shown"), PRINTED)
def test_each_line_that_the_page_shows_is_printed(
    arguments: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SCENARIO)
    result = CliRunner().invoke(command, arguments.split(), standalone_mode=False)
    printed = iter(result.stdout.splitlines())
    assert [line for line in shown.splitlines() if line not in printed] == []


@pytest.mark.parametrize(("file", "name", "answer"), ANSWERED)
def test_the_answers_of_the_page_are_those_of_opa(file: str, name: str, answer: str) -> None:
    documents = list(yaml.safe_load_all((SCENARIO / file).read_text()))
    (resource,) = [each for each in documents if each["metadata"]["name"] == name]
    namespaces = {
        each["metadata"]["name"]: each for each in documents if each["kind"] == "Namespace"
    }
    data = yaml.safe_load((SCENARIO / "data.yaml").read_text())
    assert json.loads(answer) == cli.evaluate(
        "data.k8s.placement",
        modules=PolicySet.load(Settings(placement=True)).modules,
        data={**data, "kubernetes": {"namespaces": namespaces}},
        input={"resource": resource},
    )


def test_the_page_shows_some() -> None:
    assert len(PRINTED) == 2
    assert len(ANSWERED) == 1


def test_the_data_of_the_page_have_the_shape_of_the_schema() -> None:
    schema = json.loads((paths.root() / "tools" / "schemas" / "placement_data.json").read_text())
    (example,) = re.findall(r"```yaml\n(placement:.*?)```", PAGE, re.DOTALL)
    for text in (example, (SCENARIO / "data.yaml").read_text()):
        Draft7Validator(schema).validate(yaml.safe_load(text)["placement"])

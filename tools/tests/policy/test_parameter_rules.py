"""Rules of parameters that JSON Schema cannot express, evaluated by API servers' own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.common.errors import FairleadError, InputError
from fairlead.common.progress import Progress
from fairlead.policy import (
    fairlead_yaml,
    intents,
    new_policy,
    parameter_rules,
    policy_files,
    workspace,
)
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import matcher
from fairlead.settings.models import Settings

GOOD = "intents: {replica-limits: {parameters: {ranges: [{min_replicas: 3, max_replicas: 3}]}}}\n"
BAD = """\
intents:
  replica-limits:
    parameters:
      ranges:
        - {min_replicas: 3, max_replicas: 10}
        - {min_replicas: 5, max_replicas: 3}
  few:
    intent: replica-limits
    parameters: {ranges: [{min_replicas: 2, max_replicas: 1}]}
"""


def load(folder: Path, text: str) -> Settings:
    path = folder / "fairlead.yaml"
    path.write_text(text)
    return fairlead_yaml.load(path, parameter_rules.rules(Progress()))


def test_each_broken_rule_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        load(tmp_path, BAD)
    path = tmp_path / "fairlead.yaml"
    assert str(error.value).splitlines() == [
        f"{path}:6: intents.replica-limits.parameters.ranges[1]: min_replicas 5 is above "
        "max_replicas 3",
        f"{path}:9: intents.few.parameters.ranges[0]: min_replicas 2 is above max_replicas 1",
    ]


def test_parameters_that_keep_the_rules_are_loaded(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD).intents["replica-limits"].parameters["ranges"]


def test_what_is_switched_off_is_not_judged(tmp_path: Path) -> None:
    text = BAD.replace("    parameters:\n", "    enabled: false\n    parameters:\n", 1)
    with pytest.raises(InputError, match=r"few\.parameters") as error:
        load(tmp_path, text)
    assert "replica-limits.parameters" not in str(error.value)


@pytest.mark.parametrize("text", ["podSelector: merge\n", "intents: {node-pool: true}\n"])
def test_without_such_parameters_no_program_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(matcher, "ask", refuse)
    load(tmp_path, text)


def test_the_schemas_of_the_projects_intents_are_structural() -> None:
    every = intents.in_folder(policy_files.builtin())
    assert list(parameter_rules.unstructural(every, Progress())) == []


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("type: string", None),
        ("oneOf: [{type: string}, {type: integer}]", r"intent\.yaml:\d+: parameters.*label.*type"),
        ("type: string\n      if: {minLength: 2}", "Kubernetes does not know such a schema"),
        (
            "type: string\n      x-kubernetes-validations: [{rule: self.nowhere == 'x'}]",
            "nowhere",
        ),
        (
            "type: string\n      maxLength: 100\n      x-kubernetes-validations: "
            "[{rule: size(self) > 90, message: is too short}]",
            r"parameters\.properties\.label\.default: is too short",
        ),
    ],
)
def test_a_policy_whose_parameters_no_api_server_takes_is_refused(
    tmp_path: Path, schema: str, words: str | None
) -> None:
    new_policy.policy("sample-policy", tmp_path)
    path = tmp_path / "sample_policy" / "intent.yaml"
    text = path.read_text()
    assert "type: string" in text
    path.write_text(text.replace("type: string", schema, 1))
    settings = Settings(policies=[str(tmp_path)])
    if words is None:
        workspace.require_good(PolicySet.load(settings))
        return
    with pytest.raises(FairleadError, match=words):
        workspace.require_good(PolicySet.load(settings))

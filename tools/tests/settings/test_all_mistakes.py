"""Every mistake of a settings file is told at once, whichever check finds it; what is only the
consequence of another mistake is not."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from fairlead.common.errors import InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.policy import fairlead_yaml, new_policy, parameter_rules
from fairlead.settings.models import Settings

RULES = parameter_rules.rules(Progress())


def told(folder: Path, text: str, *, rules: fairlead_yaml.Rules = RULES) -> list[str]:
    """The mistakes, each as `LINE: TEXT`."""
    file = folder / "fairlead.yaml"
    file.write_text(textwrap.dedent(text).lstrip())
    texts = []
    for read in (fairlead_yaml.load, fairlead_yaml.read):
        with pytest.raises(UsageError) as error:
            read(file, rules)
        texts.append(str(error.value))
    assert texts[0] == texts[1], "both ways to read say the same"
    return [line.removeprefix(f"{file}:") for line in texts[0].splitlines()]


ALL = {
    "values, schemas and keys": (
        """
        enforcement: block
        intents:
          required-labels: true
        nodepool: false
        """,
        [
            "1: enforcement is 'block'",
            "3: intents.required-labels.parameters: 'labels' is a required property",
            "4: unknown key 'nodepool': the intent node-pool stands below `intents:`",
        ],
    ),
    "folders, intents and values": (
        """
        policies: [./none]
        replicas: 0
        intents:
          image-sources: {parameters: {a: b, sources: [1]}}
        """,
        [
            "1: policies: there is no folder ",
            "2: replicas is 0",
            "4: intents.image-sources.parameters.sources[0]",
            "4: intents.image-sources.parameters: unknown key 'a': remove it, or take one of",
        ],
    ),
    "an instance with a wrong switch and wrong parameters": (
        """
        intents:
          required-labels:
            enabled: "yes"
            parameters: {labels: 5}
        """,
        ["3: intents.required-labels.enabled", "4: intents.required-labels.parameters.labels: 5"],
    ),
    "unknown names": (
        """
        timeoutSeconds: soon
        enforcement: {nothing: deny, node-pool: block}
        intents:
          nobody: true
        """,
        [
            "1: timeoutSeconds",
            "2: enforcement.node-pool is 'block'",
            "2: enforcement: there is no intent 'nothing'",
            "4: intents: there is no intent 'nobody'",
        ],
    ),
    "contradictions beside others": (
        """
        pools: {gpu: {allowedNodeSelector: {a: [b]}}}
        replicas: many
        intents: {required-labels: true}
        """,
        [
            "1: pool 'gpu' has an allowedNodeSelector",
            "2: replicas is 'many'",
            "3: intents.required-labels.parameters: 'labels' is a required property",
        ],
    ),
}


@pytest.mark.parametrize("case", ALL)
def test_all_are_told_at_once(tmp_path: Path, case: str) -> None:
    text, expected = ALL[case]
    mistakes = told(tmp_path, text)
    assert len(mistakes) == len(expected), mistakes
    for mistake, beginning in zip(sorted(mistakes), expected, strict=True):
        assert mistake.startswith(beginning)


ALONE = {
    "the intents of a folder that is not there": (
        "policies: [./none]\nintents: {of-none: true}\nenforcement: {of-none: warn}\n",
        "1: policies: there is no folder",
    ),
    "an instance of what is no text": (
        "intents:\n  mine: {intent: 7, parameters: {}}\n",
        "2: intents.mine.intent is 7",
    ),
    "parameters that are no mapping": (
        "intents:\n  required-labels: {parameters: []}\n",
        "2: intents.required-labels.parameters is the list []",
    ),
    "an instance that is no mapping": (
        "intents:\n  mine: 5\nenforcement: {mine: warn}\n",
        "2: intents.mine is 5",
    ),
    "a default pool among pools with a mistake": (
        "defaultPool: gpu\npools: {gpu: {tolerations: 5}}\n",
        "2: pools.gpu.tolerations is 5",
    ),
}


@pytest.mark.parametrize("case", ALONE)
def test_a_consequence_is_not_told(tmp_path: Path, case: str) -> None:
    text, expected = ALONE[case]
    (mistake,) = told(tmp_path, text)
    assert mistake.startswith(expected)


def test_rules_are_asked_though_another_part_has_a_mistake(tmp_path: Path) -> None:
    mistakes = told(
        tmp_path,
        "replicas: 0\nintents:\n  replica-limits:\n"
        "    parameters: {ranges: [{min_replicas: 2, max_replicas: 1}]}\n",
    )
    assert len(mistakes) == 2, mistakes
    assert mistakes[1] == (
        "4: intents.replica-limits.parameters.ranges[0]: min_replicas 2 is above max_replicas 1"
    )


def test_an_intent_that_cannot_be_read_hides_no_mistake_in_the_settings(tmp_path: Path) -> None:
    new_policy.policy("own-rule", tmp_path / "policies")
    facts = tmp_path / "policies" / "own_rule" / "intent.yaml"
    facts.write_text("nonsense: 1\n" + facts.read_text())
    said = "\n".join(told(tmp_path, "policies: [policies]\nreplicas: 0\n"))
    assert said.startswith("2: replicas is 0")
    assert "own_rule/intent.yaml:1: unknown key 'nonsense'" in said


@pytest.mark.parametrize(
    ("sidecar", "keys"),
    [
        (sidecars.KUBE_MGMT, ["maxStaleness"]),
        (sidecars.SERVE, ["maxStaleness", "decisionLogs.sample"]),
        (sidecars.SYNC, []),
    ],
)
def test_a_sidecar_says_all_that_it_cannot_do(sidecar: sidecars.Sidecar, keys: list[str]) -> None:
    settings = Settings.model_validate({"maxStaleness": 60, "decisionLogs": {"sample": 0.5}})
    assert [problem.split()[0].rstrip(":") for problem in sidecar.problems(settings)] == keys
    if keys:
        with pytest.raises(UsageError) as error:
            sidecar.require(settings)
        assert len(str(error.value).splitlines()) == len(keys)


def test_a_setting_of_a_former_version_is_told_with_the_way_out(tmp_path: Path) -> None:
    mistakes = told(tmp_path, "placementPolicies: true\nreplicas: 0\n")
    assert "placementPolicies is gone: leave it out, and apply each PlacementPolicy" in mistakes[0]


def test_one_error_names_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "fairlead.yaml").write_text("replicas: 0\nnodepool: false\n")
    with pytest.raises(InputError) as error:
        fairlead_yaml.load(tmp_path / "fairlead.yaml")
    assert error.value.line == 1

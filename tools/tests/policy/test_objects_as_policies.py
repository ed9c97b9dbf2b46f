"""Policies and settings as objects of the API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.kube import own_kinds
from fairlead.policy import new_policy, parameter_rules, policy_files, policy_objects
from fairlead.policy.policy_objects import FAIRLEAD, POLICY, PolicyObjects, WrongObjects
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

RULES = parameter_rules.rules(Progress())
REGO = "package team_label\n\nimport rego.v1\n\ndefault deny := set()\n"
INTENT = {
    "requests": [{"kinds": ["v1/Pod"], "operations": ["CREATE"]}],
    "parameters": {"properties": {"label": {"type": "string", "default": "team"}}},
}


def policy(name: str = "team-label", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": own_kinds.VERSION,
        "kind": POLICY,
        "metadata": {"name": name},
        "spec": {"rego": REGO, "intent": INTENT, **spec},
    }


def fairlead(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": own_kinds.VERSION,
        "kind": FAIRLEAD,
        "metadata": {"name": own_kinds.NAME},
        "spec": spec,
    }


def policy_set(settings: dict[str, Any], *policies: dict[str, Any]) -> PolicySet:
    return PolicyObjects.read(settings, policies).policy_set(RULES)


def faults(settings: dict[str, Any], *policies: dict[str, Any]) -> dict[Any, tuple[str, ...]]:
    with pytest.raises(WrongObjects) as raised:
        policy_set(settings, *policies)
    return dict(raised.value.faults)


def test_without_policies_there_are_those_of_the_project() -> None:
    made, loaded = policy_set(fairlead(defaultPool="p")), PolicySet.load(Settings(default_pool="p"))
    assert made.revision == loaded.revision
    assert made.settings == loaded.settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two policies of users: one with a test and one more module, and a library."""
    policies = tmp_path / "policies"
    new_policy.policy("team-label", policies)
    new_policy.policy("cost-centre", policies)
    (policies / "team_label" / "words.rego").write_text("package team_label\n\nwords := {1}\n")
    (policies / "mine").mkdir()
    (policies / "mine" / "mine.rego").write_text("package mine\n\nthing := 1\n")
    return policies


def test_a_folder_and_its_objects_make_the_same_policies(folder: Path) -> None:
    settings = Settings.model_validate(
        {
            "policies": [str(folder)],
            "enforcement": {"*": "warn", "team-label": "deny", "other-label": "deny"},
            "intents": {
                "other-label": {"intent": "team-label", "exempt": {"users": ["root"]}},
                "cost-centre": False,
                "image-sources": {"enabled": False},
            },
        }
    )
    loaded = PolicySet.load(settings)
    # As an API server stores them.
    settings_object, *policies = json.loads(json.dumps(policy_objects.of_policy_set(loaded)))
    assert [one["metadata"]["name"] for one in policies] == ["cost-centre", "mine", "team-label"]
    assert settings_object["spec"] == {
        "enforcement": {"*": "warn"},
        "intents": {"image-sources": {"enabled": False}},
    }
    assert policies[2]["spec"]["instances"] == {
        "other-label": {"enforcement": "deny", "exempt": {"users": ["root"]}}
    }
    assert set(policies[2]["spec"]["modules"]) == {"words.rego"}
    assert "test" not in json.dumps(policies[2]["spec"]["modules"])

    made = policy_set(settings_object, *policies)
    assert [one.name for one in made.active] == [one.name for one in loaded.active]
    for own, same in zip(made.active, loaded.active, strict=True):
        assert (own.parameters, own.exempt, own.requests) == (
            same.parameters,
            same.exempt,
            same.requests,
        )
        assert made.settings.mode(own.name) == loaded.settings.mode(own.name)
    assert made.modules.keys() == loaded.modules.keys()
    # The comment with the facts is written anew, and the settings are those of other files.
    facts = {f"{one.intent.package}.{one.intent.package}.rego" for one in loaded.active}
    differing = {key for key, text in made.modules.items() if loaded.modules[key] != text}
    assert differing <= facts

    again = policy_objects.of_policy_set(made)
    assert again == [settings_object, *policies]
    assert policy_set(again[0], *again[1:]).revision == made.revision


@pytest.mark.parametrize(
    ("settings", "policies", "expected"),
    [
        (
            fairlead(defaultPool="a", pools={"b": {}}),
            [],
            {(FAIRLEAD, "fairlead"): "defaultPool 'a' is not one of pools: b"},
        ),
        (
            fairlead(intents={"nothing": {}}),
            [policy()],
            {(FAIRLEAD, "fairlead"): "there is no intent 'nothing'"},
        ),
        (
            fairlead(),
            [policy(parameters={"label": 1})],
            {(POLICY, "team-label"): "spec.parameters.label: 1 is not of type 'string'"},
        ),
        (
            fairlead(),
            [policy(instances={"x": {"parameters": {"label": 1}}})],
            {(POLICY, "team-label"): "spec.instances.x.parameters.label: 1 is not of type"},
        ),
        (
            fairlead(),
            [policy(rego=7), policy("b", intnt={})],
            {
                (POLICY, "team-label"): "spec: rego is 7: write text",
                (POLICY, "b"): "spec: unknown key 'intnt'",
            },
        ),
        (
            fairlead(),
            [policy(intent={"requests": [{"kinds": ["v1/Pod"], "operations": ["MAKE"]}]})],
            {(POLICY, "team-label"): "operations"},
        ),
        (
            fairlead(),
            [policy(rego="# METADATA\n# title: [\npackage team_label\n")],
            {(POLICY, "team-label"): "spec.rego:1: METADATA: is not valid YAML"},
        ),
        (
            fairlead(),
            [policy("node-pool")],
            {(POLICY, "node-pool"): "node_pool are there already"},
        ),
        (fairlead(), [policy("data")], {(POLICY, "data"): "metadata.name: 'data' has a meaning"}),
        (
            fairlead(intents={"x": {"intent": "node-pool"}}),
            [policy(instances={"x": {}})],
            {(POLICY, "team-label"): "instances.x: Fairlead or another Policy has an intent 'x'"},
        ),
        (
            fairlead(),
            [policy(instances={"y": {}}), policy("a-b", instances={"y": {}})],
            {(POLICY, "a-b"): "instances.y: Fairlead or another Policy has an intent 'y'"},
        ),
    ],
)
def test_a_mistake_is_told_of_its_object_and_place(
    settings: dict[str, Any], policies: list[dict[str, Any]], expected: dict[Any, str]
) -> None:
    told = faults(settings, *policies)
    assert told.keys() == expected.keys()
    for key, text in expected.items():
        assert text in told[key][0]


def test_a_message_about_a_module_names_the_field_and_the_line() -> None:
    objects = PolicyObjects.read(
        fairlead(), [policy(modules={"more.rego": "package team_label\n"})]
    )
    broken = "\n".join(
        [
            "2 errors occurred:",
            "/policy.fairlead.dev/team_label/team_label.rego:4: rego_parse_error: unexpected",
            "policy.fairlead.dev/team_label/more.rego:2: rego_type_error: undefined ref",
        ]
    )
    with pytest.raises(WrongObjects) as raised, objects.explained():
        raise UsageError(broken)
    assert raised.value.faults == {
        (POLICY, "team-label"): (
            "spec.rego:4: rego_parse_error: unexpected",
            "spec.modules[more.rego]:2: rego_type_error: undefined ref",
        )
    }


def test_policies_in_the_place_of_the_projects_are_no_objects(tmp_path: Path) -> None:
    (tmp_path / "main.rego").write_text("package system\n\nmain := {}\n")
    loaded = PolicySet.load(Settings(), tmp_path)
    with pytest.raises(UsageError, match="in the place of the project's policies"):
        policy_objects.of_policy_set(loaded)
    assert policy_files.builtin().is_dir()

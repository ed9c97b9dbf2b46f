"""Policies that the sidecar does not load, or not under any name."""

from __future__ import annotations

import pytest
from sync_world import OWNER, SYSTEM, World

from fairlead.policy import policy_files, staging
from fairlead.sync import policy_problems


def test_a_policy_that_guards_opa_is_refused_however_it_is_spelt(world: World) -> None:
    spelt = {
        "a": 'package system["\\u0061uthz"]\nallow := true',
        "b": 'package system\nauthz["allow"] := true',
    }
    world.cluster({"fairlead-policies": spelt})
    world.settle()
    assert world.server.own_policies() == {}
    assert ["system.authz" in message for message in world.messages("fairlead-policies")] == [
        True,
        True,
    ]


def test_a_policy_of_what_decision_logs_hide_is_refused_however_it_is_spelt(world: World) -> None:
    spelt = {"a": "package system.log\ndrop := false", "b": "package system\nlog.drop := false"}
    world.cluster({"fairlead-policies": spelt})
    world.settle()
    assert world.server.own_policies() == {}
    assert ["system.log" in message for message in world.messages("fairlead-policies")] == [
        True,
        True,
    ]


def test_deployments_and_the_sidecar_refuse_the_same_packages() -> None:
    refused = {f"system.{own}" for own in policy_problems.OPAS_OWN}
    assert refused == staging.OPAS_OWN.keys()
    of_files = {(policy_files.builtin() / name).read_text() for name in policy_files.FILE_MODULES}
    assert all(any(f"\npackage {name}\n" in text for name in refused) for text in of_files)


def test_a_document_that_a_policy_shadows_is_told_by_name(world: World) -> None:
    policies = {"map": {"a": "package fairlead.facts.x\ny := 1"}}
    world.cluster(policies)
    world.settle()
    world.cluster(policies, {"facts": {"x": '{"y": 2}'}})
    world.settle()
    assert world.problems[OWNER] == []
    assert world.messages("facts")[0].startswith("fairlead/facts/x: ")
    assert world.opa.document(["fairlead", "facts", "x", "y"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "package system\nmain := 2",
        "package system.health\nready := true",
        "# c\npackage # d\n  system\nx := 1",
        'package system["logs"]\nmask := {"x"}',
        "\ufeffpackage system\nmain := 2",
        pytest.param(
            "package system\n"
            + "\n".join(f"x{number} if input.x == {number}" for number in range(30_000)),
            id="30,000 rules",  # a test's name is a variable of the processes that it starts
        ),
    ],
)
def test_the_package_system_is_defined_by_its_own_config_map_alone(world: World, text: str) -> None:
    world.cluster({**SYSTEM, "map": {"a": "package a", "evil": text}})
    world.settle()
    assert sorted(world.server.own_policies()) == [
        "fairlead/fairlead-policies/main.rego",
        "fairlead/map/a",
    ]
    assert world.problems["fairlead", "fairlead-policies"] == []
    (message,) = world.messages()
    assert message.startswith(f"fairlead/map/evil:{3 if text.startswith('#') else 1}: ")
    assert "come from the ConfigMap fairlead/fairlead-policies alone" in message
    assert world.opa.document(["system", "main"]) == 1


def test_a_policy_that_only_speaks_of_system_is_loaded(world: World) -> None:
    texts = {
        "a": "package a\nx := data.system.main",
        "b": "package systems\n# package system",
        "c": "package c.system",
    }
    world.cluster({**SYSTEM, "map": texts})
    world.settle()
    assert world.messages() == []


def test_a_policy_that_would_hide_data_of_placement_is_refused(world: World) -> None:
    data = {"placement": {"clusters": '{"eu": {}}'}}
    hiding = {
        "a": "package placement",
        "b": "# c\npackage placement.team\nx := 1",
        "c": "package inventory.eu\nf(x) := x",
        "d": "package fairlead.placement\nclusters := {}",
        "e": 'package fairlead["pl\\u0061cement"]\nclusters := {}',
        "f": "package fairlead\nplacement.team := 1",
    }
    world.cluster({"map": {**hiding, "own": "package k8s.placement\nx := data.placement"}}, data)
    world.settle()
    assert list(world.server.own_policies()) == ["fairlead/map/own"]
    first, second, third, *others = world.messages()
    assert first == (
        "fairlead/map/a:1: package placement would hide the data that Fairlead reads at "
        "data.placement: choose another package"
    )
    assert second.startswith("fairlead/map/b:2: package placement would hide")
    assert third.startswith("fairlead/map/c:1: package inventory would hide")
    assert len(others) == 3
    assert all("rules at data.fairlead.placement would hide" in message for message in others)
    assert world.opa.document(["placement"]) is None
    assert world.opa.document(["fairlead", "placement", "clusters"]) == {"eu": {}}


def test_a_policy_too_large_to_be_checked_is_refused_where_it_matters(world: World) -> None:
    large = "package {}\n# {}\n" + "\n".join(f'x{number} := "{"y" * 900}"' for number in range(300))
    texts = {
        "a": large.format("kubernetes.x", "data.kubernetes.pods"),
        "b": large.format("kubernetes.y", ""),
    }
    world.cluster({"map": texts, "fairlead-policies": {"c": large.format("system", "authz")}})
    world.settle()
    assert list(world.server.own_policies()) == ["fairlead/map/b"]
    for name in ("map", "fairlead-policies"):
        assert "is too large to be checked" in world.messages(name)[0]


def test_a_policy_as_large_as_a_config_map_can_hold_is_loaded(world: World) -> None:
    rules = "\n".join(f'x{number} := "{"ä" * 480}"' for number in range(1000))
    text = f"package system.large\n{rules}"
    assert len(text.encode()) > 950_000
    world.opa.timeout = 60.0
    world.cluster({"fairlead-policies": {"a": text}})
    world.settle()
    assert world.problems["fairlead", "fairlead-policies"] == []
    assert world.opa.document(["system", "large", "x999"]) == "ä" * 480

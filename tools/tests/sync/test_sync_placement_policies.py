"""PlacementPolicies beside ConfigMaps: how the sidecar loads them, and who has a package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sync_world import SYSTEM, World, make_policy

from fairlead.deployment.names import LONGEST_REGO, POLICY_OBJECTS

TEAMS = 'package teams\n\ndefault parameters := {"limit": 1}\n\nlimit := parameters.limit'


def answer(world: World, *path: str) -> Any:
    return world.opa.document(path)


def messages(world: World, name: str) -> list[str]:
    return [problem["message"] for problem in world.problems[POLICY_OBJECTS, name]]


def rivals(world: World, name: str) -> tuple[str, ...]:
    return world.verdicts[POLICY_OBJECTS, name].claim.rivals


def show(world: World, *policies: dict[str, Any], **config_maps: dict[str, str]) -> None:
    """Set these policies beside Fairlead's own, and reconcile until nothing changes any more."""
    world.cluster({**SYSTEM, **config_maps}, placement=policies)
    for _ in range(3):
        world.settle()


def test_a_policy_decides_by_its_parameters_or_by_the_defaults_of_its_rego(world: World) -> None:
    show(world, make_policy("teams", "09:00", TEAMS))
    assert answer(world, "teams", "limit") == 1
    show(world, make_policy("teams", "09:00", TEAMS, limit=7, names=['a"`b', "\u00e9"]))
    assert answer(world, "teams", "limit") == 7
    assert answer(world, "teams", "parameters", "names") == ['a"`b', "\u00e9"]
    assert messages(world, "teams") == []
    assert world.reconciler.trouble is None
    show(world)
    assert answer(world, "teams") is None


@pytest.mark.parametrize(
    ("rego", "line", "words"),
    [
        ("package bad\n\nx := unknown(1)", 3, "undefined function"),
        ("package bad\n\n\nx := ]", 4, "parse error"),
        ("package system\nmain := 2", 1, "belongs to ConfigMap fairlead/fairlead-policies"),
        ('package system["health"]\nready := true', 1, "belongs to ConfigMap"),
        ("package system.authz\nallow := true", 1, "never loaded"),
        ("package fairlead_sync\nowned := []", 1, "would hide"),
        ("package fairlead_confirmed\nwithin := 9", 1, "would hide"),
        ("package kubernetes\nnamespaces := {}", 1, "would hide"),
        ("package placement", 1, "would hide the data that Fairlead reads at data.placement"),
        ("package placement.team\nx := 1", 1, "would hide the data that Fairlead reads"),
        ("package inventory\nx := 1", 1, "would hide the data that Fairlead reads"),
        ("package fairlead.placement\nclusters := {}", 1, "rules at data.fairlead.placement"),
        ("package fairlead\nplacement := {}", 1, "would hide"),
        ("package fairlead.team\nx := 1", 1, "rules at data.fairlead would hide"),
    ],
)
def test_a_bad_policy_names_its_line_and_takes_down_no_other(
    world: World, rego: str, line: int, words: str
) -> None:
    good = make_policy("teams", "09:00", TEAMS)
    show(world, make_policy("bad", "08:00", rego, limit=3), good, map={"a": "package a\nx := 1"})
    (problem,) = world.problems[POLICY_OBJECTS, "bad"]
    error, *_ = problem["errors"]
    assert words in f"{error['code']} {error['message']}".replace("parse_error", "parse error")
    assert error["location"]["row"] == line
    assert answer(world, "teams", "limit") == 1
    assert answer(world, "a", "x") == 1
    assert answer(world, "system", "main") == 1
    assert messages(world, "teams") == []


def test_parameters_that_make_a_policy_too_large_are_refused(world: World) -> None:
    show(world, make_policy("large", "08:00", TEAMS, text="x" * LONGEST_REGO))
    assert "split the policy" in messages(world, "large")[0]
    assert answer(world, "teams") is None


def test_a_bad_change_leaves_the_policy_before_it_in_force_with_its_parameters(
    world: World,
) -> None:
    show(world, make_policy("teams", "09:00", TEAMS, limit=7))
    show(world, make_policy("teams", "09:00", TEAMS + "\ny := unknown(1)", limit=8))
    assert answer(world, "teams", "limit") == 7
    assert "unknown" in str(world.problems[POLICY_OBJECTS, "teams"])


@pytest.mark.parametrize(("first", "second"), [("09:00", "10:00"), ("09:00", "09:00")])
@pytest.mark.parametrize("package", ["teams", "teams.web", 'teams["web"]'])
def test_of_two_claims_the_older_stays_in_force_and_both_say_so(
    world: World, first: str, second: str, package: str
) -> None:
    one = make_policy("a", first, TEAMS)
    two = make_policy("b", second, f"package {package}\n\nlimit := 9")
    show(world, two, one)
    assert answer(world, "teams") == {"limit": 1, "parameters": {"limit": 1}}
    assert messages(world, "a") == []
    assert "belongs to PlacementPolicy a" in messages(world, "b")[0]
    assert rivals(world, "a") == ("PlacementPolicy b",)
    assert rivals(world, "b") == ("PlacementPolicy a",)
    show(world, two)
    assert messages(world, "b") == []
    assert rivals(world, "b") == ()
    assert 9 in (answer(world, "teams", "limit"), answer(world, "teams", "web", "limit"))


def test_a_policy_knows_which_part_of_its_package_others_claim(world: World) -> None:
    show(
        world,
        make_policy("a", "09:00", TEAMS),
        make_policy("b", "10:00", "package teams.web\n\nlimit := 9"),
        make_policy("c", "11:00", "package teams\n\nlimit := 8"),
    )
    shared = {name: world.verdicts[POLICY_OBJECTS, name].claim.shared for name in "abc"}
    part = (("PlacementPolicy b", "teams.web"),)
    assert shared == {"a": part, "b": (), "c": part}


def test_an_older_policy_takes_a_package_over_from_a_younger_one(world: World) -> None:
    old, young = make_policy("old", "08:00", "package x\ny := 1"), make_policy("b", "09:00", TEAMS)
    show(world, old, young)
    assert answer(world, "teams", "limit") == 1
    show(world, make_policy("old", "08:00", "package teams\nmine := true"), young)
    assert answer(world, "teams") == {"mine": True}
    assert answer(world, "x") is None
    assert rivals(world, "old") == ("PlacementPolicy b",)


def test_a_package_that_is_in_force_while_newer_text_is_rejected_is_taken(world: World) -> None:
    show(world, make_policy("a", "08:00", TEAMS))
    broken = make_policy("a", "08:00", "package other\nx := unknown(1)")
    show(world, broken, make_policy("b", "09:00", "package teams\nlimit := 9"))
    assert answer(world, "teams", "limit") == 1
    assert "belongs to PlacementPolicy a" in messages(world, "b")[0]


def test_a_policy_that_claims_a_taken_package_keeps_its_own_before(world: World) -> None:
    a, b = make_policy("a", "08:00", TEAMS), make_policy("b", "09:00", "package b\nx := 1")
    show(world, a, b)
    show(world, a, make_policy("b", "09:00", "package teams\nlimit := 9"))
    assert answer(world, "teams", "limit") == 1
    assert answer(world, "b", "x") == 1
    show(
        world,
        a,
        make_policy("b", "09:00", "package teams\nlimit := 9"),
        make_policy("c", "10:00", "package b\ny := 1"),
    )
    assert answer(world, "b") == {"x": 1}
    assert "belongs to PlacementPolicy b" in messages(world, "c")[0]


def test_config_maps_come_first_even_if_they_come_later(world: World) -> None:
    policy = make_policy("a", "08:00", TEAMS)
    show(world, policy)
    show(world, policy, map={"t": "package teams\nlimit := 5"})
    assert answer(world, "teams") == {"limit": 5}
    assert "belongs to ConfigMap fairlead/map" in messages(world, "a")[0]
    assert rivals(world, "a") == ("ConfigMap fairlead/map",)
    show(world, policy)
    assert answer(world, "teams", "limit") == 1


def test_the_outcome_is_the_same_after_a_restart_of_the_sidecar_or_of_opa(world: World) -> None:
    policies = [
        make_policy("a", "09:00", TEAMS, limit=7),
        make_policy("b", "08:00", "package teams.web\nx := 1"),
        make_policy("c", "10:00", "package teams.cli\nx := 1"),
    ]

    def restart_opa() -> None:
        world.server.stop()
        world.server.start()

    restarts: list[Callable[[], None]] = [lambda: None, world.sidecar, restart_opa]
    for restart in restarts:
        restart()
        show(world, *policies)
        assert answer(world, "teams") == {"web": {"x": 1}, "cli": {"x": 1}}
        assert rivals(world, "b") == ("PlacementPolicy a",)
        assert rivals(world, "a") == ("PlacementPolicy b", "PlacementPolicy c")

"""Which policies no decision uses, as OPA's own compiler tells."""

from __future__ import annotations

import pytest

from fairlead.common.errors import FairleadError
from fairlead.policy import usage
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

MAIN = "package system\n\nmain := {}\n"


@pytest.mark.parametrize(
    ("main", "other", "used"),
    [
        ("x := 1", "package teams.a\n\ndeny := set()", False),
        ("x := data.teams.a.deny", "package teams.a\n\ndeny := set()", True),
        ("x := data.teams.a", "package teams.a\n\ndeny := set()", True),
        ("x := data.teams[input.team].deny", "package teams.a\n\ndeny := set()", True),
        ("x := data[input.place].a.deny", "package teams.a\n\ndeny := set()", True),
        ("x := data.teams[input.team].deny", "package groups.a\n\ndeny := set()", False),
        ("x := data.teams.a.deny", "package teams.a\n\nallow := true", False),
        ("x := data.teams.a.deny", "package teams.a\n\ndeny contains 1 if input", True),
        ("x := data.teams.a.limits.cpu", "package teams.a\n\nlimits.cpu := 1", True),
        ("x := data.teams.a.limits", "package teams.a\n\nlimits[n] := 1 if n := input", True),
        ('x := "data.teams.a.deny"', "package teams.a\n\ndeny := set()", False),
        ("x := 1 # data.teams.a.deny", "package teams.a\n\ndeny := set()", False),
        ("x := 1", "package teams.a", False),
    ],
)  # fmt: skip
def test_a_policy_is_used_if_main_depends_on_it(main: str, other: str, used: bool) -> None:
    modules = {"main": f"package system\n\nmain := x if x\n\n{main}\n", "other": other}
    assert usage.unused(modules) == (set() if used else {"other"})


def test_a_policy_that_only_an_unused_one_uses_is_unused() -> None:
    modules = {
        "main": MAIN.replace("{}", "data.a.x"),
        "a": "package a\n\nx := data.b.x",
        "b": "package b\n\nx := 1",
        "c": "package c\n\nx := data.d.x",
        "d": "package d\n\nx := 1",
    }
    assert usage.unused(modules) == {"c", "d"}


def test_readiness_uses_policies_too() -> None:
    modules = {
        "health": "package system.health\n\nready if data.a.x",
        "further": "package system.further\n\nx := data.b.x",
        **{name: f"package {name}\n\nx := 1" for name in "ab"},
    }
    assert usage.unused(modules) == {"further", "b"}


def test_every_package_of_ours_is_used() -> None:
    assert usage.unused_packages(PolicySet.load(Settings()).modules, {}) == []


def test_a_package_is_used_if_one_of_its_modules_is_or_another_policy_uses_it() -> None:
    modules = {
        "main": MAIN.replace("{}", "data.teams[input.x].deny"),
        "a1": "package a\n\nx := 1",
        "a2": "package a\n\ny := 1",
        "b.c": "package b.c\n\nx := 1",
    }
    assert usage.unused_packages(modules, {}) == ["a", "b.c"]
    assert usage.unused_packages(modules, {"other": "package teams.z\n\ndeny := data.a.x"}) == [
        "b.c"
    ]


def test_policies_that_do_not_compile_together_cannot_be_told() -> None:
    with pytest.raises(FairleadError, match=r"opa deps: .*0\.rego:3"):
        usage.unused({"a": "package a\n\nx := y"})

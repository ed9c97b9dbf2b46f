"""Policies whose file gets another name."""

from __future__ import annotations

from sync_world import OWNER, World


def test_a_file_that_is_renamed_is_loaded_by_its_new_name(world: World) -> None:
    world.cluster({"map": {"a": "package a\ndefault x := 1"}})
    world.settle()
    world.cluster({"map": {"renamed": "package a\ndefault x := 2"}})
    world.settle()
    assert world.problems[OWNER] == []
    assert sorted(world.server.own_policies()) == ["fairlead/map/renamed"]
    assert world.opa.document(["a", "x"]) == 2


def test_a_file_that_is_renamed_while_others_need_it_is_in_force_all_the_same(world: World) -> None:
    text = "package a\ndefault x := {}\nf(y) := y"
    user = "package b\ny := data.a.f(1)"
    world.cluster({"map": {"a": text.format(1), "user": user}})
    world.settle()
    world.cluster({"map": {"renamed": text.format(2), "user": user}})
    world.settle()
    assert world.problems[OWNER] == []
    assert world.opa.document(["a", "x"]) == 2
    world.server.stop()
    world.server.start()
    world.settle()
    assert sorted(world.server.own_policies()) == ["fairlead/map/renamed", "fairlead/map/user"]


def test_a_file_that_is_renamed_by_a_push_is_in_force_by_its_new_name(world: World) -> None:
    """The policy that switches to the new revision waits for all others of it, but not for a text
    that stands in for another.
    """
    renamed = "package system.extra\ndefault x := 1"

    def staged(name: str, revision: str) -> dict[str, str]:
        main = f"package system\nmain := data.r_{revision}.one.x"
        return {
            f"{revision}.one.rego": f"package r_{revision}.one\nx := 1",
            "main.rego": main,
            name: renamed,
        }

    for name, revision in (("extra.rego", "0123456789ab"), ("other.rego", "abcdef012345")):
        data = staged(name, revision)
        world.cluster({"fairlead-policies": data})
        world.settle()
    assert {id_.rpartition("/")[2] for id_ in world.server.own_policies()} == data.keys()
    assert world.problems["fairlead", "fairlead-policies"] == []


def test_a_file_that_is_renamed_and_broken_leaves_the_old_one_in_force(world: World) -> None:
    world.cluster({"map": {"a": "package a\ndefault x := 1"}})
    world.settle()
    world.cluster({"map": {"renamed": "package a\ndefault x := 2\n\ny := z"}})
    for _ in range(3):
        world.settle()
    assert world.server.own_policies() == {"fairlead/map/a": "package a\ndefault x := 1"}
    (problem,) = world.problems[OWNER]
    assert problem["errors"][0]["location"] == {"file": "fairlead/map/renamed", "row": 4, "col": 6}
    assert "fairlead/map/a:" not in str(problem)


def test_of_an_update_that_is_half_bad_nothing_is_removed(world: World) -> None:
    world.cluster({"map": {"a": "package a\nx := data.b.f(1)", "b": "package b\nf(x) := x"}})
    world.settle()
    world.cluster({"map": {"a": "package a\nx := data.c.f(2)", "c": "package c\nf(x) := y"}})
    world.settle()
    assert sorted(world.server.own_policies()) == ["fairlead/map/a", "fairlead/map/b"]
    assert world.opa.document(["a", "x"]) == 1
    world.cluster({"map": {"a": "package a\nx := data.c.f(2)", "c": "package c\nf(x) := x"}})
    world.settle()
    assert sorted(world.server.own_policies()) == ["fairlead/map/a", "fairlead/map/c"]
    assert world.opa.document(["a", "x"]) == 2

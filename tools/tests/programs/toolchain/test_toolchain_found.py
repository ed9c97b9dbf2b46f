"""A program of exactly the pinned version on PATH is used; anything else is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from toolchain_world import World, runs, said, until

from fairlead.programs import processes, toolchain
from fairlead.programs.toolchain import programs

MUTE = {program.name for program in programs.PROGRAMS if not program.says}
"""Programs that cannot say their version."""


def test_the_pinned_version_on_path_is_used_without_a_build(world: World) -> None:
    path = world.program("opa", said("opa"))
    assert toolchain.ensure(["opa"]) == {"opa": path}
    (state,) = toolchain.states(["opa"])
    assert (state.source, state.state, state.path) == ("PATH", "ready", str(path))


@pytest.mark.parametrize("name", sorted(set(toolchain.NAMES) - set(toolchain.OWN) - MUTE))
def test_every_program_is_known_by_what_it_prints(world: World, name: str) -> None:
    world.program(name, said(name))
    (state,) = toolchain.states([name])
    assert state.source == "PATH"


@pytest.mark.parametrize("name", sorted(MUTE))
def test_a_program_that_cannot_say_its_version_is_not_taken_from_path(
    world: World, name: str
) -> None:
    world.program(name, "")
    assert toolchain.states([name])[0].source == "go build"
    world.go()
    assert toolchain.ensure([name])[name].is_relative_to(world.cache)
    assert toolchain.states([name])[0].source == "cache"


@pytest.mark.parametrize("name", toolchain.OWN)
def test_a_program_of_ours_is_built_from_this_checkout_whatever_is_on_path(
    world: World, name: str
) -> None:
    world.program(name, said(name))
    (state,) = toolchain.states([name])
    assert state.source == "go build"


@pytest.mark.parametrize(
    "says",
    ["Version: 1.0.0", "{pinned}-dev", "{pinned}1", "not {pinned}", "", "\\0377\\0376 garbage"],
)
def test_another_version_or_garbage_is_not_it(world: World, says: str) -> None:
    world.program("opa", says.format(pinned=said("opa")))
    (state,) = toolchain.states(["opa"])
    assert (state.source, state.state, state.path) == ("go build", "not built", None)


def test_a_program_that_fails_is_not_it(world: World) -> None:
    world.executable(world.bin / "opa", f"#!/bin/sh\necho '{said('opa')}'\nexit 1\n")
    assert toolchain.states(["opa"])[0].source == "go build"


def test_a_file_that_cannot_start_is_not_it(world: World) -> None:
    world.executable(world.bin / "opa", "#!/no/such/shell\n")
    assert toolchain.states(["opa"])[0].source == "go build"


def test_the_right_one_behind_a_wrong_one_on_path_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.program("opa", "Version: 0.1.0")
    right = world.program("opa", said("opa"), folder="later")
    monkeypatch.setenv("PATH", f"{world.bin}:{right.parent}")
    assert toolchain.ensure(["opa"]) == {"opa": right}


def test_a_relative_entry_of_path_is_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.program("opa", said("opa"))
    monkeypatch.chdir(world.bin)
    monkeypatch.setenv("PATH", ".:")
    assert toolchain.states(["opa"])[0].source == "go build"


def test_a_program_that_hangs_is_given_up_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {pid}; wait"
    assert processes.answer(["/bin/sh", "-c", script], seconds=2) is None
    until(lambda: not runs(int(pid.read_text())))

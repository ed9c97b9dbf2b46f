"""Interrupts with real processes and signals: nothing keeps running, no partial result looks
finished, and no program is built twice at a time."""

from __future__ import annotations

import signal

import pytest
from toolchain_world import DEADLINE, World, runs, until

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_an_interrupted_build_leaves_no_program_and_no_process(
    world: World, number: signal.Signals
) -> None:
    world.go("hang")
    # Under nohup, SIGHUP is ignored, and child processes inherit that.
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        process = world.start("tools", "--path", "opa")
    finally:
        signal.signal(signal.SIGHUP, former)
    pids = world.fake / "pids"
    until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    process.send_signal(number)
    output, _ = process.communicate(timeout=DEADLINE)
    assert output == ""
    for pid in map(int, pids.read_text().split()):
        until(lambda pid=pid: not runs(pid))  # type: ignore[misc]
    cleaned = number in (signal.SIGINT, signal.SIGTERM)
    if cleaned:
        assert process.returncode == 130
        assert world.files() == []

    world.go("build")
    after = world.start("tools", "--path", "opa")
    assert after.communicate(timeout=DEADLINE)[0].endswith("/opa\n")
    assert world.files() == ["opa"]


def test_two_processes_build_once_and_the_second_says_that_it_waits(world: World) -> None:
    world.go("slow")
    first = world.start("tools", "--path", "opa")
    until((world.fake / "started").exists)
    second = world.start("tools", "--path", "opa")
    assert second.stderr
    waits = second.stderr.readline()
    (world.fake / "go on").touch()
    first_path, second_path = (
        process.communicate(timeout=DEADLINE)[0] for process in (first, second)
    )
    assert "opa: waiting for another process" in waits
    assert first_path == second_path != ""
    assert len(world.builds()) == 1


def test_one_that_waits_can_be_interrupted(world: World) -> None:
    world.go("slow")
    first = world.start("tools", "--path", "opa")
    until((world.fake / "started").exists)
    second = world.start("tools", "--path", "opa")
    assert second.stderr
    second.stderr.readline()
    second.send_signal(signal.SIGINT)
    second.communicate(timeout=DEADLINE)
    assert second.returncode == 130
    (world.fake / "go on").touch()
    assert first.communicate(timeout=DEADLINE)[0].endswith("/opa\n")

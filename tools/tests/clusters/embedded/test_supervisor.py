"""A cluster's servers live exactly as long as they should, whichever process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_servers import (
    DEADLINE,
    SLEEP,
    STUBBORN,
    command,
    gone,
    servers,
    supervisor_pid,
    telling,
    until,
    up,
)

from fairlead.clusters.embedded import client, process_list, supervisor
from fairlead.clusters.embedded.client import Supervisor


def test_the_supervisor_loads_nothing_but_the_standard_library() -> None:
    show = (
        f"import sys, {supervisor.__name__}; print(*{{name.partition('.')[0] for name in "
        f"sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    heavy = {
        "kubernetes",
        "rich",
        "click",
        "pydantic",
        "requests",
        "cryptography",
        "jinja2",
        "yaml",
    }
    assert heavy.isdisjoint(done.stdout.split())


def test_servers_end_when_the_command_that_started_them_is_killed(folder: Path) -> None:
    process, pids = command(folder, "stay", SLEEP)
    process.kill()
    process.wait()
    until(
        lambda: all(map(gone, [*pids, supervisor_pid(folder)])),
        "the servers and their supervisor end",
    )


def test_servers_do_not_see_the_terminal_s_ctrl_c(folder: Path) -> None:
    process, pids = command(folder, "stay", SLEEP)
    try:
        sessions = {os.getsid(pid) for pid in pids}
        assert sessions == {supervisor_pid(folder)}
    finally:
        process.kill()
        process.wait()


def test_detached_servers_outlive_the_command(folder: Path) -> None:
    process, pids = command(folder, "detach", SLEEP)
    assert process.wait(DEADLINE) == 0
    assert not any(map(gone, pids))
    attached = Supervisor.attach(folder)
    assert attached
    attached.stop()
    assert all(map(gone, pids))
    assert Supervisor.attach(folder) is None


def test_a_later_command_starts_and_stops_servers(folder: Path) -> None:
    command(folder, "detach", SLEEP)[0].wait(DEADLINE)
    attached = Supervisor.attach(folder)
    assert attached
    pid = attached.start_server("third", SLEEP)
    attached.stop_server("second")
    assert not gone(pid)
    assert list(servers(folder)) == ["first", "third"]
    assert attached.start_server("second", SLEEP) == servers(folder)["second"]["pid"]


def test_servers_stop_in_the_reverse_order_of_their_start(owner: Supervisor, folder: Path) -> None:
    order = folder / "order"
    for name in "abc":
        owner.start_server(name, telling(order, name))
    until(lambda: all(up(folder, name) for name in "abc"), "the servers run")
    owner.stop()
    assert order.read_text() == "cba"


def test_a_suspended_server_is_told_to_end_as_any_other(owner: Supervisor, folder: Path) -> None:
    pid = owner.start_server("suspended", telling(folder / "told", "yes"))
    until(lambda: up(folder, "suspended"), "the server runs")
    os.kill(pid, signal.SIGSTOP)
    owner.stop_server("suspended")
    assert gone(pid)
    assert (folder / "told").read_text() == "yes"


def test_a_server_that_ignores_sigterm_can_be_stopped(owner: Supervisor, folder: Path) -> None:
    pid = owner.start_server("stubborn", STUBBORN)
    until(lambda: up(folder, "stubborn"), "the server runs")
    owner.stop_server("stubborn")
    assert gone(pid)


def test_a_killed_server_that_is_kept_is_started_again_each_time(
    owner: Supervisor, folder: Path
) -> None:
    pid = owner.start_server("sleep", SLEEP)
    owner.keep("sleep")
    for restarts in (1, 2):
        os.kill(pid, signal.SIGKILL)
        until(
            lambda: servers(folder)["sleep"]["pid"] not in (None, pid),  # noqa: B023
            "the server is started again",
        )
        now = servers(folder)["sleep"]
        assert (now["restarts"], now["exit"]) == (restarts, -signal.SIGKILL)
        assert now["pid"]
        pid = now["pid"]


def test_a_killed_server_that_is_not_kept_stays_dead(owner: Supervisor, folder: Path) -> None:
    pid = owner.start_server("sleep", SLEEP)
    os.kill(pid, signal.SIGKILL)
    until(lambda: servers(folder)["sleep"]["exit"] == -signal.SIGKILL, "its end is told")
    assert servers(folder)["sleep"]["pid"] is None
    owner.start_server("other", SLEEP)
    assert servers(folder)["sleep"]["pid"] is None


def test_detaching_keeps_every_server_even_one_that_just_died(
    owner: Supervisor, folder: Path
) -> None:
    pid = owner.start_server("sleep", SLEEP)
    os.kill(pid, signal.SIGKILL)
    until(lambda: servers(folder)["sleep"]["pid"] is None, "its end is told")
    owner.detach()
    until(lambda: servers(folder)["sleep"]["pid"], "the server is started again")


def test_a_server_that_never_runs_for_long_is_started_ever_more_seldom(
    owner: Supervisor, folder: Path
) -> None:
    owner.start_server("brief", [sys.executable, "-S", "-c", "pass"], keep=True)
    until(lambda: servers(folder)["brief"]["restarts"] >= 2, "it is started again")
    log = client.tail(folder / client.LOGS / "supervisor.log")
    waits = [float(line.split()[-2]) for line in log.splitlines() if "brief ended" in line]
    assert waits[:3] == [0.2, 0.4, 0.8][: len(waits)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can end children with their parent")
def test_a_killed_supervisor_leaves_no_server(folder: Path) -> None:
    command(folder, "detach", STUBBORN)[0].wait(DEADLINE)
    pids = [record["pid"] for record in servers(folder).values() if record["pid"]]
    assert len(pids) == 2
    os.kill(supervisor_pid(folder), signal.SIGKILL)
    until(lambda: all(map(gone, pids)), "the servers end")
    assert not client.is_running(folder)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that no supervisor of this test started."""
    running = subprocess.Popen(SLEEP, stdout=subprocess.DEVNULL)
    yield running
    running.kill()
    running.wait()


def write_record(
    folder: Path, supervisor_is: tuple[int, str | None], server_is: tuple[int, str | None]
) -> None:
    owner: process_list.SupervisorRecord = {
        "pid": supervisor_is[0],
        "started": supervisor_is[1],
        "stopping": False,
    }
    pid, started = server_is
    server: process_list.ServerRecord = {
        "pid": pid,
        "started": started,
        "restarts": 0,
        "log": "",
        "exit": None,
    }
    process_list.write(folder, {"supervisor": owner, "servers": {"etcd": server}})


def test_a_process_that_has_the_pid_of_one_that_ended_is_left_alone(
    folder: Path, process: subprocess.Popen[bytes]
) -> None:
    ended = (process.pid, "1@earlier")
    write_record(folder, ended, ended)
    assert not client.is_running(folder)
    Supervisor(folder).stop()
    assert process.poll() is None


def test_a_signal_reaches_just_the_process_that_was_started(
    process: subprocess.Popen[bytes],
) -> None:
    started = process_list.started(process.pid)
    assert process_list.alive(process.pid, started)
    assert not process_list.send(process.pid, "1@earlier", signal.SIGKILL)
    assert process_list.send(process.pid, started, signal.SIGKILL)
    assert process.wait(DEADLINE) == -signal.SIGKILL
    assert not process_list.send(process.pid, started, signal.SIGKILL)


def test_servers_of_a_dead_supervisor_that_still_run_are_ended(
    folder: Path, process: subprocess.Popen[bytes]
) -> None:
    write_record(
        folder, (process.pid, "1@earlier"), (process.pid, process_list.started(process.pid))
    )
    Supervisor(folder).stop()
    assert process.wait(DEADLINE) == -signal.SIGKILL


def test_stopping_twice_is_harmless(owner: Supervisor, folder: Path) -> None:
    owner.start_server("sleep", SLEEP)
    owner.stop()
    owner.stop()
    Supervisor(folder).stop()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"supervisor": {}}', '{"supervisor": {"pid": 1}, "servers": []}']
)
def test_a_record_that_is_none_says_that_nothing_runs(folder: Path, content: str) -> None:
    (folder / process_list.FILE).write_text(content)
    assert not client.is_running(folder)
    Supervisor(folder).stop()

"""A server that does not start is reported at once: which one, why, what to do, and the end of its
log."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from tiny_servers import DEADLINE, SLEEP, gone, servers, supervisor_pid, until, up

from fairlead.clusters.embedded import client
from fairlead.clusters.embedded.client import Supervisor
from fairlead.common.errors import FairleadError


def test_a_crash_at_start_is_told_with_the_end_of_its_log(owner: Supervisor) -> None:
    code = "import sys; [print('line', n, flush=True) for n in range(20)]; sys.exit('bad flag')"
    owner.start_server("etcd", [sys.executable, "-S", "-c", code])
    with pytest.raises(FairleadError) as raised:
        owner.wait_for("etcd", lambda: "no connection", DEADLINE)
    message = str(raised.value)
    assert message.startswith("etcd ended (exit code 1)")
    assert message.endswith("line 19\n  bad flag")
    assert "line 10\n" not in message


def test_a_server_that_has_ended_before_anyone_waits_is_told(
    owner: Supervisor, folder: Path
) -> None:
    owner.start_server("etcd", [sys.executable, "-S", "-c", "raise SystemExit(3)"])
    until(lambda: servers(folder)["etcd"]["exit"] == 3, "its end is told")
    with pytest.raises(FairleadError, match=r"etcd ended \(exit code 3\)\nits log is empty"):
        owner.wait_for("etcd", lambda: "no connection", DEADLINE)


@pytest.mark.parametrize(
    ("output", "remedy"),
    [
        ("listen tcp 127.0.0.1:1: bind: address already in use", "its port is taken"),
        ("write wal: no space left on device", "the disk is full"),
        ("couldn't initialize inotify: too many open files", "too many inotify instances"),
    ],
)
def test_a_known_reason_is_told_with_its_remedy(
    owner: Supervisor, output: str, remedy: str
) -> None:
    trace = "; print('a line of the trace\\n' * 20)"
    owner.start_server(
        "etcd", [sys.executable, "-S", "-c", f"print({output!r}){trace}; raise SystemExit(2)"]
    )
    with pytest.raises(
        FairleadError,
        match=f"etcd (ended .exit code 2.|does not serve): {remedy}.*try again(.|\n)*{output}",
    ):
        owner.wait_for("etcd", lambda: "no connection", DEADLINE)


def test_a_taken_port_is_told_even_where_the_server_runs_on(owner: Supervisor) -> None:
    code = "import time; print('bind: address already in use', flush=True); time.sleep(1000)"
    owner.start_server("etcd", [sys.executable, "-S", "-c", code])
    with pytest.raises(FairleadError, match="etcd does not serve: its port is taken"):
        owner.wait_for("etcd", lambda: "no connection", DEADLINE)


def test_what_an_earlier_run_logged_is_not_held_against_a_server(
    owner: Supervisor, folder: Path
) -> None:
    code = "import time; print('up: address already in use', flush=True); time.sleep(1000)"
    owner.start_server("etcd", [sys.executable, "-S", "-c", code])
    until(lambda: up(folder, "etcd"), "the server runs")
    owner.stop_server("etcd")
    owner.start_server("etcd", SLEEP)
    with pytest.raises(FairleadError, match=r"etcd was not ready within 0 s \(no connection\)"):
        owner.wait_for("etcd", lambda: "no connection", 0.0)


def test_waiting_ends_as_soon_as_the_server_is_ready(owner: Supervisor) -> None:
    owner.start_server("etcd", SLEEP)
    looks = iter(["no connection", "HTTP 500", None])
    owner.wait_for("etcd", lambda: next(looks), DEADLINE)
    assert list(looks) == []


def test_waiting_ends_when_somebody_else_stops_the_cluster(owner: Supervisor, folder: Path) -> None:
    owner.start_server("etcd", SLEEP)
    looks = 0

    def unready() -> str:
        nonlocal looks
        looks += 1
        if looks == 1:
            os.kill(supervisor_pid(folder), signal.SIGTERM)
        return "no connection"

    with pytest.raises(FairleadError, match=r"was stopped meanwhile|etcd ended"):
        owner.wait_for("etcd", unready, DEADLINE)


@pytest.mark.parametrize(
    ("program", "reason"), [("/nowhere/etcd", "No such file"), ("/dev/null", "Permission denied")]
)
def test_a_program_that_cannot_run_is_told(owner: Supervisor, program: str, reason: str) -> None:
    with pytest.raises(FairleadError, match=f"etcd cannot be started: {reason}.*fairlead tools"):
        owner.start_server("etcd", [program])


def test_two_servers_of_one_name_are_refused(owner: Supervisor) -> None:
    pid = owner.start_server("etcd", SLEEP)
    with pytest.raises(FairleadError, match="runs already"):
        owner.start_server("etcd", SLEEP)
    assert not gone(pid)


def test_a_server_that_is_not_there_cannot_be_stopped(owner: Supervisor) -> None:
    with pytest.raises(FairleadError, match="no server 'etcd'"):
        owner.stop_server("etcd")


def test_a_supervisor_that_is_gone_is_told(owner: Supervisor, folder: Path) -> None:
    os.kill(supervisor_pid(folder), signal.SIGKILL)
    until(lambda: not client.is_running(folder), "the supervisor ends")
    with pytest.raises(FairleadError, match="does not answer or has ended"):
        owner.start_server("etcd", SLEEP)


def test_servers_get_what_is_given_and_little_of_the_environment(
    owner: Supervisor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETCD_NAME", "other")
    show = [sys.executable, "-S", "-c", "import os; print(sorted(os.environ))"]
    owner.start_server("show", show, env={"GIVEN": "1"})
    log = folder / client.LOGS / "show.log"
    until(lambda: client.tail(log).endswith("]\n"), "the server has told")
    assert "'GIVEN'" in client.tail(log)
    assert "'PATH'" in client.tail(log)
    assert "ETCD_NAME" not in client.tail(log)

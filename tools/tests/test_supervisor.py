"""A cluster's servers live exactly as long as they should, whoever is killed; here with tiny processes for servers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fairlead import toolchain
from fairlead.clusters.embedded import client, ports, processes, supervisor
from fairlead.clusters.embedded.client import Supervisor
from fairlead.clusters.embedded.cluster import Embedded
from fairlead.clusters.embedded.ports import free_ports
from fairlead.errors import FairleadError, UsageError
from fairlead.progress import Progress

DEADLINE = 30.0
SLEEP = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(1000)"]
STUBBORN = [
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(1000)",
]
# A command that has started servers, told their pids, and works on.
COMMAND = """
import json, sys, time
from pathlib import Path
from fairlead.clusters.embedded.client import Supervisor

supervisor = Supervisor.start(Path(sys.argv[1]))
pids = [supervisor.start_server(name, json.loads(sys.argv[3])) for name in sys.argv[4:]]
if sys.argv[2] == "detach":
    supervisor.detach()
print(json.dumps(pids), flush=True)
if sys.argv[2] != "detach":
    time.sleep(1000)
"""


def until(what: Callable[[], object], told: str) -> None:
    end = time.monotonic() + DEADLINE
    while not what():
        assert time.monotonic() < end, f"not within {DEADLINE:.0f} s: {told}"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    return processes.started(pid) is None


def servers(folder: Path) -> dict[str, processes.ServerRecord]:
    record = processes.read(folder)
    assert record
    return record["servers"]


def supervisor_pid(folder: Path) -> int:
    record = processes.read(folder)
    assert record
    return record["supervisor"]["pid"]


def up(folder: Path, name: str) -> bool:
    """Whether the server's program has begun; its signal handlers are set then."""
    return "up" in client.tail(folder / client.LOGS / f"{name}.log")


def command(
    folder: Path, how: str, argv: list[str], names: Sequence[str] = ("first", "second")
) -> tuple[subprocess.Popen[str], list[int]]:
    arguments = [str(folder), how, json.dumps(argv), *names]
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, json.loads(process.stdout.readline())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A state folder whose path is longer than a socket's may be; what a failed test left is ended."""
    path = tmp_path / ("long-" * 25)
    path.mkdir()
    yield path
    Supervisor(path).stop()


@pytest.fixture
def owner(folder: Path) -> Iterator[Supervisor]:
    started = Supervisor.start(folder)
    yield started
    started.stop()


def test_the_supervisor_loads_nothing_but_the_standard_library() -> None:
    show = f"import sys, {supervisor.__name__}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    heavy = {"kubernetes", "rich", "click", "pydantic", "requests", "cryptography", "jinja2", "yaml"}
    assert heavy.isdisjoint(done.stdout.split())


def test_servers_end_when_the_command_that_started_them_is_killed(folder: Path) -> None:
    process, pids = command(folder, "stay", SLEEP)
    process.kill()
    process.wait()
    until(lambda: all(map(gone, [*pids, supervisor_pid(folder)])), "the servers and their supervisor end")


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


def telling(path: Path, what: str) -> list[str]:
    """A server that adds `what` to the file `path` when it is told to end."""
    end = f"lambda *_: (open({str(path)!r}, 'a').write({what!r}), sys.exit())"
    code = f"import signal, sys, time; signal.signal(signal.SIGTERM, {end}); print('up', flush=True); time.sleep(1000)"
    return [sys.executable, "-S", "-c", code]


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


def test_a_killed_server_that_is_kept_is_started_again_each_time(owner: Supervisor, folder: Path) -> None:
    pid = owner.start_server("sleep", SLEEP)
    owner.keep("sleep")
    for restarts in (1, 2):
        os.kill(pid, signal.SIGKILL)
        until(lambda: servers(folder)["sleep"]["pid"] not in (None, pid), "the server is started again")  # noqa: B023
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


def test_detaching_keeps_every_server_even_one_that_just_died(owner: Supervisor, folder: Path) -> None:
    pid = owner.start_server("sleep", SLEEP)
    os.kill(pid, signal.SIGKILL)
    until(lambda: servers(folder)["sleep"]["pid"] is None, "its end is told")
    owner.detach()
    until(lambda: servers(folder)["sleep"]["pid"], "the server is started again")


def test_a_server_that_never_runs_for_long_is_started_ever_more_seldom(owner: Supervisor, folder: Path) -> None:
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


def write_record(folder: Path, supervisor_is: tuple[int, str | None], server_is: tuple[int, str | None]) -> None:
    owner: processes.SupervisorRecord = {"pid": supervisor_is[0], "started": supervisor_is[1], "stopping": False}
    pid, started = server_is
    server: processes.ServerRecord = {"pid": pid, "started": started, "restarts": 0, "log": "", "exit": None}
    processes.write(folder, {"supervisor": owner, "servers": {"etcd": server}})


def test_a_process_that_has_the_pid_of_one_that_ended_is_left_alone(
    folder: Path, process: subprocess.Popen[bytes]
) -> None:
    ended = (process.pid, "1@earlier")
    write_record(folder, ended, ended)
    assert not client.is_running(folder)
    Supervisor(folder).stop()
    assert process.poll() is None


def test_a_signal_reaches_just_the_process_that_was_started(process: subprocess.Popen[bytes]) -> None:
    started = processes.started(process.pid)
    assert processes.alive(process.pid, started)
    assert not processes.send(process.pid, "1@earlier", signal.SIGKILL)
    assert processes.send(process.pid, started, signal.SIGKILL)
    assert process.wait(DEADLINE) == -signal.SIGKILL
    assert not processes.send(process.pid, started, signal.SIGKILL)


def test_servers_of_a_dead_supervisor_that_still_run_are_ended(folder: Path, process: subprocess.Popen[bytes]) -> None:
    write_record(folder, (process.pid, "1@earlier"), (process.pid, processes.started(process.pid)))
    Supervisor(folder).stop()
    assert process.wait(DEADLINE) == -signal.SIGKILL


def test_a_crash_at_start_is_told_with_the_end_of_its_log(owner: Supervisor) -> None:
    code = "import sys; [print('line', n, flush=True) for n in range(20)]; sys.exit('bad flag')"
    owner.start_server("etcd", [sys.executable, "-S", "-c", code])
    with pytest.raises(FairleadError) as raised:
        owner.wait_for("etcd", lambda: "no connection", DEADLINE)
    message = str(raised.value)
    assert message.startswith("etcd ended (exit code 1)")
    assert message.endswith("line 19\n  bad flag")
    assert "line 10\n" not in message


def test_a_server_that_has_ended_before_anyone_waits_is_told(owner: Supervisor, folder: Path) -> None:
    owner.start_server("etcd", [sys.executable, "-S", "-c", "raise SystemExit(3)"])
    until(lambda: servers(folder)["etcd"]["exit"] == 3, "its end is told")
    with pytest.raises(FairleadError, match=r"etcd ended \(exit code 3\)\nits log is empty"):
        owner.wait_for("etcd", lambda: "no connection", DEADLINE)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("listen tcp 127.0.0.1:1: bind: address already in use", "its port is taken"),
        ("write wal: no space left on device", "the disk is full"),
    ],
)
def test_a_known_reason_is_told_with_its_remedy(owner: Supervisor, said: str, told: str) -> None:
    trace = "; print('a line of the trace\\n' * 20)"
    owner.start_server("etcd", [sys.executable, "-S", "-c", f"print({said!r}){trace}; raise SystemExit(2)"])
    with pytest.raises(
        FairleadError, match=f"etcd (ended .exit code 2.|does not serve): {told}.*try again(.|\n)*{said}"
    ):
        owner.wait_for("etcd", lambda: "no connection", DEADLINE)


def test_a_taken_port_is_told_even_where_the_server_runs_on(owner: Supervisor) -> None:
    code = "import time; print('bind: address already in use', flush=True); time.sleep(1000)"
    owner.start_server("etcd", [sys.executable, "-S", "-c", code])
    with pytest.raises(FairleadError, match="etcd does not serve: its port is taken"):
        owner.wait_for("etcd", lambda: "no connection", DEADLINE)


def test_what_an_earlier_run_logged_is_not_held_against_a_server(owner: Supervisor, folder: Path) -> None:
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


@pytest.mark.parametrize(("program", "told"), [("/nowhere/etcd", "No such file"), ("/dev/null", "Permission denied")])
def test_a_program_that_cannot_run_is_told(owner: Supervisor, program: str, told: str) -> None:
    with pytest.raises(FairleadError, match=f"etcd cannot be started: {told}.*fairlead tools"):
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


def test_stopping_twice_is_harmless(owner: Supervisor, folder: Path) -> None:
    owner.start_server("sleep", SLEEP)
    owner.stop()
    owner.stop()
    Supervisor(folder).stop()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"supervisor": {}}', '{"supervisor": {"pid": 1}, "servers": []}'])
def test_a_record_that_is_none_says_that_nothing_runs(folder: Path, content: str) -> None:
    (folder / processes.FILE).write_text(content)
    assert not client.is_running(folder)
    Supervisor(folder).stop()


def test_free_ports_differ_and_can_be_had() -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    socket.create_server((ports.HOST, found[0])).close()


def test_a_port_that_is_taken_is_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    (taken,) = free_ports(1)
    with socket.create_server((ports.HOST, taken)):
        monkeypatch.setattr(ports, "_LOWEST", taken)
        monkeypatch.setattr(ports, "_HIGHEST", taken)
        with pytest.raises(FairleadError, match="only 0 of 1 ports are free"):
            free_ports(1)
    assert free_ports(1) == [taken]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Embedded:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "main.rego").touch()
    monkeypatch.setenv("FAIRLEAD_HOME", str(tmp_path))
    return Embedded("test")


def fake(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    monkeypatch.setattr(toolchain, "ensure", lambda names, _progress: dict.fromkeys(names, program))


def test_a_control_plane_that_does_not_start_leaves_nothing(cluster: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, Path("/bin/false"))
    with pytest.raises(FairleadError, match=r"etcd ended \(exit code 1\)"):
        cluster.start_control_plane(progress=Progress())
    assert not cluster.path.exists()
    assert not cluster.down()


def test_ctrl_c_half_way_leaves_nothing(cluster: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "etcd"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o700)
    fake(monkeypatch, program)
    pids: list[int | None] = []

    def interrupted(_supervisor: Supervisor, name: str, *_: object) -> None:
        pids.extend([cluster.servers()[name]["pid"], supervisor_pid(cluster.path)])
        raise KeyboardInterrupt

    monkeypatch.setattr(Supervisor, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster.start_control_plane(progress=Progress())
    assert len(pids) == 2
    assert all(pid and gone(pid) for pid in pids)
    assert not cluster.path.exists()


def test_a_dead_cluster_s_folder_is_removed(cluster: Embedded) -> None:
    cluster.path.mkdir(parents=True)
    (cluster.path / processes.FILE).write_text("{")
    assert not cluster.running()
    assert cluster.down()
    assert not cluster.path.exists()


def test_what_needs_a_running_cluster_says_how_to_start_it(cluster: Embedded, tmp_path: Path) -> None:
    for use in (
        lambda: cluster.add_nodes({"gpu": 1}),
        lambda: cluster.start_server("opa", ["opa"]),
        lambda: cluster.service_account_kubeconfig("fairlead", "opa", tmp_path / "kubeconfig"),
    ):
        with pytest.raises(FairleadError, match="`fairlead up --name test` starts it"):
            use()


@pytest.mark.parametrize("name", ["", "Upper", "-a", "a.b", "a/b", "..", "a" * 64])
def test_a_name_that_is_no_dns_label_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a cluster"):
        Embedded(name)

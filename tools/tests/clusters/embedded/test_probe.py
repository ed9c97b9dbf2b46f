"""Only a server whose liveness probe fails is restarted."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ready_server
from ready_server import VALID, ReadyServer
from tiny_servers import SLEEP, STUBBORN, gone, servers, until

from fairlead.clusters.embedded import client, ports, probe
from fairlead.clusters.embedded.client import Supervisor
from fairlead.clusters.embedded.server import Probe
from fairlead.pki.certificates import CA

# A ready server as a process of its own.
ITSELF = """
import sys, time
from pathlib import Path
from ready_server import VALID, CA, ReadyServer

server = ReadyServer("itself", CA.create("test", VALID), Path(sys.argv[1]))
server.port = int(sys.argv[2])
server.start()
time.sleep(1000)
"""


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[ReadyServer]:
    server = ReadyServer("asked", CA.create("test", VALID), tmp_path)
    server.start()
    yield server
    server.stop()


def looking(asked: ReadyServer, startup: float = 60.0) -> Probe:
    return Probe(asked.url, period=0.02, timeout=0.5, failures=3, startup=startup)


def test_a_server_is_killed_and_started_again_when_its_probe_fails(
    owner: Supervisor, folder: Path, asked: ReadyServer
) -> None:
    pid = owner.start_server("loader", STUBBORN, keep=True, probe=looking(asked))
    until(lambda: asked.looks > 3, "the probe has looked")
    assert servers(folder)["loader"]["pid"] == pid
    asked.ready = False
    until(
        lambda: servers(folder)["loader"]["pid"] not in (pid, None), "the server is started again"
    )
    asked.ready = True
    assert gone(pid)
    assert "liveness probe: " in client.tail(folder / client.LOGS / "loader.log")


def test_until_the_first_success_a_server_has_its_time_to_start(
    owner: Supervisor, folder: Path, asked: ReadyServer
) -> None:
    asked.ready = False
    pid = owner.start_server("loader", SLEEP, keep=True, probe=looking(asked))
    until(lambda: asked.looks > 10, "the probe has looked")
    assert servers(folder)["loader"]["pid"] == pid


def test_a_server_that_does_not_come_up_in_its_time_is_started_again(
    owner: Supervisor, folder: Path, asked: ReadyServer
) -> None:
    asked.ready = False
    owner.start_server("loader", SLEEP, keep=True, probe=looking(asked, startup=0.2))
    until(lambda: servers(folder)["loader"]["restarts"] > 0, "the server is started again")


def test_a_probe_that_was_killed_is_no_reason_to_go_without_one(
    owner: Supervisor, folder: Path, asked: ReadyServer
) -> None:
    pid = owner.start_server("loader", SLEEP, keep=True, probe=looking(asked))
    (watcher,) = watchers(folder)
    os.kill(watcher, signal.SIGKILL)
    until(
        lambda: servers(folder)["loader"]["pid"] not in (pid, None), "the server is started again"
    )
    assert watchers(folder) != [watcher]


def test_a_probe_ends_with_its_server(owner: Supervisor, folder: Path, asked: ReadyServer) -> None:
    owner.start_server("loader", SLEEP, keep=True, probe=looking(asked))
    until(lambda: asked.looks > 0, "the probe has looked")
    (watcher,) = watchers(folder)
    owner.stop_server("loader")
    assert gone(watcher)


def test_a_server_that_hangs_is_killed_and_started_again(
    owner: Supervisor, folder: Path, tmp_path: Path
) -> None:
    """The server is stopped: its port stays open and accepts connections."""
    (port,) = ports.free_ports(1)
    argv = [sys.executable, "-c", ITSELF, str(tmp_path), str(port)]
    probed = Probe(
        f"https://127.0.0.1:{port}/health/ready", period=0.2, timeout=1.0, failures=3, startup=1.0
    )
    environment = {"PYTHONPATH": str(Path(str(ready_server.__file__)).parent)}
    pid = owner.start_server("itself", argv, env=environment, keep=True, probe=probed)
    until(lambda: probe.failure(probed.url, 5.0) is None, "it answers")
    os.kill(pid, signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", port), 5.0):
        until(
            lambda: servers(folder)["itself"]["pid"] not in (pid, None),
            "the server is started again",
        )
    until(lambda: probe.failure(probed.url, 5.0) is None, "it answers again")


def test_a_certificate_that_nobody_trusts_is_no_failure(asked: ReadyServer) -> None:
    """A process that has ended must not get the next server with its id killed."""
    assert probe.failure(asked.url, 5.0) is None
    asked.ready = False
    assert "500" in str(probe.failure(asked.url, 5.0))
    asked.stop()
    assert "refused" in str(probe.failure(asked.url, 5.0))


def watchers(folder: Path) -> list[int]:
    """The probes of this folder's supervisor: its children that are not servers."""
    from fairlead.clusters.embedded import process_list

    record = process_list.read(folder)
    assert record
    owner = record["supervisor"]["pid"]
    children = Path(f"/proc/{owner}/task/{owner}/children").read_text().split()
    known = {server["pid"] for server in record["servers"].values()}
    return [int(child) for child in children if int(child) not in known]

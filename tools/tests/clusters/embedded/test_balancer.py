"""The balancer before several OPAs routes only to those that are Ready."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

import pytest
from ready_server import VALID, ReadyServer
from tiny_servers import DEADLINE, until

from fairlead.clusters.embedded import balancer
from fairlead.clusters.embedded.ports import free_ports
from fairlead.pki.certificates import CA


@pytest.fixture
def ca() -> CA:
    return CA.create("test", VALID)


@pytest.fixture
def backends(ca: CA, tmp_path: Path) -> Iterator[list[ReadyServer]]:
    servers = [ReadyServer(name, ca, tmp_path) for name in ("one", "two")]
    for server in servers:
        server.start()
    yield servers
    for server in servers:
        server.stop()


Connect = Callable[[], HTTPSConnection]


@pytest.fixture
def connect(backends: list[ReadyServer], ca: CA, tmp_path: Path) -> Iterator[Connect]:
    """Connects to the balancer before `backends` and trusts their CA; closes all connections
    afterwards.
    """
    (port,) = free_ports(1)
    argv = [f"127.0.0.1:{port}", *(f"{b.name}=127.0.0.1:{b.port}={b.ca}" for b in backends)]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", balancer.__name__, *argv], stderr=subprocess.DEVNULL
    )
    context = ssl.create_default_context(cadata=ca.cert_pem.decode())
    made: list[HTTPSConnection] = []

    def new() -> HTTPSConnection:
        connection = HTTPSConnection("127.0.0.1", port, context=context, timeout=DEADLINE)
        made.append(connection)
        return connection

    yield new
    for connection in made:
        connection.close()
    process.terminate()
    assert process.wait(DEADLINE) != 1


def asked(connection: HTTPSConnection) -> str | None:
    """The name of the server that answers on this connection; None if none does."""
    try:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()
    except (OSError, HTTPException):
        connection.close()
        return None


def answering(connect: Connect) -> set[str | None]:
    """The names of the servers that answer on four new connections."""
    return {asked(connect()) for _ in range(4)}


def test_connections_go_to_each_by_turns_and_stay_there(connect: Connect) -> None:
    until(lambda: answering(connect) == {"one", "two"}, "both are Ready")
    first, second = connect(), connect()
    assert {asked(first), asked(second)} == {"one", "two"}
    assert len({asked(first) for _ in range(5)}) == 1


def test_one_that_is_not_ready_gets_no_new_connection_and_keeps_those_it_has(
    connect: Connect, backends: list[ReadyServer]
) -> None:
    until(lambda: answering(connect) == {"one", "two"}, "both are Ready")
    connections = [connect() for _ in range(4)]
    assert {asked(connection) for connection in connections} == {"one", "two"}
    backends[0].ready = False
    until(lambda: answering(connect) == {"two"}, "only one is asked")
    for connection in connections:
        connection.auto_open = 0  # an answer can only come on the connection that was there
    after = [asked(connection) for connection in connections]
    assert sorted(after, key=str) == ["one", "one", "two", "two"]
    backends[0].ready = True
    until(lambda: answering(connect) == {"one", "two"}, "both are asked again")


def test_one_that_is_gone_is_passed_over_at_once(
    connect: Connect, backends: list[ReadyServer]
) -> None:
    until(lambda: answering(connect) == {"one", "two"}, "both are Ready")
    backends[1].stop()
    assert answering(connect) == {"one"}
    backends[1].start()
    until(lambda: answering(connect) == {"one", "two"}, "both are asked again")


def test_one_whose_answers_are_late_is_not_ready(
    connect: Connect, backends: list[ReadyServer]
) -> None:
    until(lambda: answering(connect) == {"one", "two"}, "both are Ready")
    backends[0].late = 2 * balancer.PATIENCE
    until(lambda: answering(connect) == {"two"}, "only one is asked")
    backends[0].late = 0.0
    until(lambda: answering(connect) == {"one", "two"}, "both are asked again")


def test_without_any_that_is_ready_nobody_answers(
    connect: Connect, backends: list[ReadyServer]
) -> None:
    for backend in backends:
        backend.ready = False
    until(
        lambda: all(backend.looks > 2 for backend in backends),
        "both are asked whether they are Ready",
    )
    assert answering(connect) == {None}


def test_one_is_ready_only_where_its_certificate_is_of_the_ca_in_the_file(
    connect: Connect, backends: list[ReadyServer], ca: CA
) -> None:
    until(lambda: answering(connect) == {"one", "two"}, "both are Ready")
    backends[0].ca.write_bytes(CA.create("other", VALID).cert_pem)
    until(lambda: answering(connect) == {"two"}, "only one is trusted")
    backends[0].ca.write_bytes(b"no certificate")
    assert answering(connect) == {"two"}
    backends[0].ca.write_bytes(ca.cert_pem)
    until(lambda: answering(connect) == {"one", "two"}, "both are trusted again")


def test_large_requests_and_answers_pass_whole(connect: Connect) -> None:
    until(lambda: answering(connect) == {"one", "two"}, "both are Ready")
    connection = connect()
    sent = bytes(range(256)) * 12_000
    connection.request("GET", "/", body=sent)
    assert connection.getresponse().read() == sent


def test_it_loads_nothing_but_the_standard_library() -> None:
    show = (
        f"import sys, {balancer.__name__}; print(*{{name.partition('.')[0] for name in "
        f"sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert {"kubernetes", "rich", "click", "pydantic", "requests", "cryptography"}.isdisjoint(
        done.stdout.split()
    )

"""OPA's plugin: it limits what OPA has to read, and addresses take turns."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import memory
import pytest
from waits import DEADLINE, until

from fairlead.clusters.base import OpaServer
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths, yaml_files
from fairlead.kube import clients
from fairlead.opa import containers
from fairlead.operations import deployed_state

PROFILES = ["processes"]
pytestmark = pytest.mark.embedded(
    "it needs several source addresses on loopback, and measures processes of this machine"
)

ATTACKER, BYSTANDER = "127.0.0.2", "127.0.0.3"
REVIEW = yaml_files.read_json(paths.root() / "testdata" / "review.json")


@pytest.fixture
def server(cluster: EmbeddedCluster) -> OpaServer:
    return cluster.opas()[0]


@contextlib.contextmanager
def connected(server: OpaServer, who: str) -> Iterator[ssl.SSLSocket]:
    address = urlsplit(server.url)
    context = ssl.create_default_context(cafile=str(server.ca))
    with (
        socket.create_connection(
            (address.hostname or "", address.port or 0), 60, (who, 0)
        ) as plain,
        context.wrap_socket(plain, server_hostname=address.hostname) as secure,
    ):
        yield secure


def send(
    server: OpaServer,
    who: str,
    body: bytes,
    method: str = "POST",
    path: str = "/?timeout=30s",
    **headers: str,
) -> tuple[int, bytes]:
    """The status and body of the answer to a request from an address."""
    address = urlsplit(server.url)
    context = ssl.create_default_context(cafile=str(server.ca))
    connection = http.client.HTTPSConnection(
        address.hostname or "", address.port, timeout=60, context=context, source_address=(who, 0)
    )
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()


def with_labels(text: str) -> bytes:
    """The sample review with these labels, as JSON. It is of a kind whose values are not
    counted: a pod of so many would be left out.
    """
    review = json.loads(json.dumps(REVIEW))
    review["request"]["kind"] = {"group": "", "version": "v1", "kind": "ConfigMap"}
    review["request"]["object"]["metadata"]["labels"] = "here"
    return json.dumps(review).replace('"here"', text).encode()


def placed(server: OpaServer, who: str = BYSTANDER) -> bool:
    """Whether the sample review gets its usual decision."""
    status, body = send(server, who, json.dumps(REVIEW).encode())
    return status == 200 and b"AdmissionReview" in body


LIST = "[" + ",".join(["{}"] * 900_000) + "]"
ALIASES = b"request: {object: {a: &a [x, x, x, x, x, x, x, x, x, x], b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]}}\n"  # noqa: E501


@pytest.mark.parametrize(
    ("body", "headers", "status", "why"),
    [
        (with_labels(LIST), {}, 413, "more than 400000 values"),
        (
            b'{"a":"' + b"x" * containers.LARGEST_REVIEW + b'"}',
            {},
            413,
            f"more than {containers.LARGEST_REVIEW} bytes",
        ),
        (ALIASES, {"Content-Type": "application/yaml"}, 415, "the body is YAML"),
        (ALIASES, {"Content-Type": "text/x-yaml; charset=utf-8"}, 415, "the body is YAML"),
        (b"\x1f\x8bgarbage", {"Content-Encoding": "gzip"}, 400, "the body is compressed"),
    ],
    ids=["many values", "many bytes", "YAML", "YAML by another name", "gzip"],
)
def test_what_would_take_opa_much_is_refused_before_opa_reads_it(
    server: OpaServer, body: bytes, headers: dict[str, str], status: int, why: str
) -> None:
    before = memory.peak(server.pid)
    answers = {send(server, ATTACKER, body, **headers)[0] for _ in range(3)}
    assert answers == {status}
    assert why in json.loads(send(server, ATTACKER, body, **headers)[1])["message"]
    assert memory.peak(server.pid) < before + 16
    assert placed(server)


def test_opas_metrics_have_the_reviews_by_the_status_of_their_answer(
    cluster: EmbeddedCluster, server: OpaServer
) -> None:
    assert placed(server)
    assert send(server, BYSTANDER, b"{")[0] == 400
    credentials = deployed_state.credentials(cluster.objects())
    assert credentials is not None
    token = f"Bearer {credentials.token}"
    status, text = send(server, BYSTANDER, b"", "GET", "/metrics", Authorization=token)
    assert status == 200
    for code in (200, 400):
        assert f'\nfairlead_review_duration_seconds_count{{code="{code}"}} '.encode() in text


def test_a_body_whose_length_is_not_told_is_not_read(server: OpaServer) -> None:
    with connected(server, ATTACKER) as connection:
        connection.sendall(
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 411 ")


def test_yaml_that_calls_itself_json_is_read_as_json(server: OpaServer) -> None:
    status, _ = send(server, ATTACKER, ALIASES)
    assert status == 400


@pytest.mark.parametrize("unit", ['{"a":{"b":"c"}}', "[]", '"x"'])
def test_the_largest_reviews_of_a_crowd_fit_opas_memory_and_delay_no_other_address(
    server: OpaServer, unit: str
) -> None:
    """16 of the largest reviews that are accepted, at once; each alone costs OPA about 130 MB.
    `make fuzz` checks how long others wait.

    How long others wait is for `make fuzz` to judge.
    """
    count = 390_000 // (unit.count("{") + unit.count(":") + unit.count("[") + 1)
    body = with_labels("[" + ",".join([unit] * count) + "]")
    with ThreadPoolExecutor(16) as crowd:
        sent = [crowd.submit(send, server, ATTACKER, body) for _ in range(16)]
        answered = 0
        while not all(future.done() for future in sent):
            assert placed(server)
            answered += 1
        assert {future.result()[0] for future in sent} == {200}
    assert answered
    assert memory.peak(server.pid) < containers.OPA_MEMORY


def test_a_namespace_with_many_large_reviews_delays_that_of_another_by_few_turns(
    server: OpaServer,
) -> None:
    """All requests that tenants cause come from the address of the API server."""
    large = with_labels("[" + ",".join(["[]"] * 150_000) + "]")
    namespace = json.dumps({"namespace": REVIEW["request"]["namespace"]})[1:-1].encode()
    assert namespace in large[:4096]
    elsewhere = large.replace(namespace, b'"namespace": "elsewhere"', 1)
    answered: list[int] = []
    ended = threading.Event()

    def flood() -> None:
        while not ended.is_set():
            answered.append(send(server, ATTACKER, large)[0])

    with ThreadPoolExecutor(16) as crowd:
        sent = [crowd.submit(flood) for _ in range(16)]
        try:
            until(lambda: len(answered) > 16, what="all of them wait")
            turns = []
            for _ in range(5):
                before = len(answered)
                assert send(server, ATTACKER, elsewhere)[0] == 200
                turns.append(len(answered) - before)
            # Some are answered while it connects; without turns, all 16 would be, each time.
            assert min(turns) <= 8
        finally:
            ended.set()
        for future in sent:
            future.result()
    assert set(answered) == {200}


def test_who_sends_slowly_keeps_nobody_from_sending_a_large_review(server: OpaServer) -> None:
    large = with_labels('{"a":"' + "x" * 100_000 + '"}')
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n{"  # noqa: E501
    with contextlib.ExitStack() as slow:
        for _ in range(32):
            slow.enter_context(connected(server, ATTACKER)).sendall(head)
        assert send(server, BYSTANDER, large, path="/?timeout=10s")[0] == 200


def test_a_connection_may_wait_for_its_first_request_as_for_any_other(server: OpaServer) -> None:
    # API servers connect ahead of their requests. Of a connection that was never used, Go takes
    # the end for an error, and does not send the request again.
    with connected(server, BYSTANDER) as connection:
        connection.settimeout(6)  # Go's usual limit for headers is 5 s or less
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(DEADLINE)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_one_address_cannot_take_all_connections(
    cluster: EmbeddedCluster, server: OpaServer
) -> None:
    with contextlib.ExitStack() as held:
        address = urlsplit(server.url)
        for _ in range(1_100):
            with contextlib.suppress(OSError):
                where = (address.hostname or "", address.port or 0)
                held.enter_context(socket.create_connection(where, 60, (ATTACKER, 0)))
        assert placed(server)
    assert memory.peak(cluster.servers()["opa"]["pid"]) < containers.OPA_MEMORY


def test_a_body_for_another_path_is_read_from_those_alone_whom_the_guard_lets_in(
    server: OpaServer, token: str
) -> None:
    head = b"PUT /v1/data/limited HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n%b\r\n"
    for credentials in (b"", b"Authorization: Bearer wrong\r\n"):
        with connected(server, ATTACKER) as connection:
            connection.sendall(head % credentials)  # and nothing of the body
            assert connection.recv(100).startswith(b"HTTP/1.1 401 ")
    bearer = {"Authorization": f"Bearer {token}"}
    assert send(server, BYSTANDER, b'{"a": 1}', "PUT", "/v1/data/limited", **bearer)[0] == 204
    status, body = send(server, BYSTANDER, b'{"input": {}}', "POST", "/v1/data/limited", **bearer)
    assert (status, json.loads(body)["result"]) == (200, {"a": 1})
    assert send(server, BYSTANDER, b"", "DELETE", "/v1/data/limited", **bearer)[0] == 204


def test_what_is_refused_is_logged_with_who_it_was(
    cluster: EmbeddedCluster, server: OpaServer
) -> None:
    for _ in range(100):
        send(server, "127.0.0.77", b"", path="/", **{"Content-Length": "4000000"})
    lines = [
        line
        for line in "".join(cluster.logs("opa", 1_000, False)).splitlines()
        if "127.0.0.77" in line
    ]
    assert 1 <= len(lines) <= 4, "a flood of requests is not a flood of lines"
    assert f"refused 127.0.0.77: more than {containers.LARGEST_REVIEW} bytes" in lines[0]


def test_connections_to_an_opa_that_ended_are_closed(
    cluster: EmbeddedCluster, server: OpaServer
) -> None:
    """A client with a kept connection would be refused until that OPA has loaded its policies,
    although another OPA may be Ready.
    """
    with connected(server, BYSTANDER) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        connection.settimeout(DEADLINE)
        assert server.pid
        os.kill(server.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            send(server, ATTACKER, json.dumps(REVIEW).encode())  # or anybody's probe
        assert connection.recv(1000) == b""
    until(lambda: cluster.servers()["opa"]["pid"] not in (server.pid, None), what="OPA is back")
    until(lambda: _placed(server), what="it answers again")


def test_an_opa_that_hangs_or_ends_is_started_again(
    cluster: EmbeddedCluster,
    server: OpaServer,
    objects: clients.Objects,
    namespace: Callable[..., str],
    pod: Callable[..., dict[str, Any]],
) -> None:
    at = namespace(agentpool="pool1")
    for number in (signal.SIGKILL, signal.SIGSTOP):
        before = cluster.servers()["opa"]["pid"]
        assert before
        os.kill(before, number)
        again = functools.partial(_replaced, cluster, before)
        until(again, what="OPA runs again")
        until(lambda: _placed(server), what="it answers again")
    assert objects.create(pod(at))["spec"]["nodeSelector"] == {"agentpool": "pool1"}


def _replaced(cluster: EmbeddedCluster, before: int) -> bool:
    return cluster.servers()["opa"]["pid"] not in (before, None)


def _placed(server: OpaServer) -> bool:
    try:
        return placed(server)
    except OSError:
        return False

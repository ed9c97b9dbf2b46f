"""`fairlead serve` as a real process, between a real client and a fake API server."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import re
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fake_apiserver
import pytest
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.requests import Request
from webhook_process import HOUR, Served, serving, write_certificate

from fairlead.cli.processes.serve import command
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.engines.python.serving import application
from fairlead.engines.python.serving.connections import HEAD, listening
from fairlead.engines.python.serving.server import CONNECTIONS
from fairlead.opa.containers import LARGEST_REVIEW
from fairlead.pki.certificates import CA
from fairlead.settings.models import Settings
from lab.fuzz import limits


def pod(namespace: str, **spec: Any) -> dict[str, Any]:
    """The review of a pod that is created."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "42",
            "operation": "CREATE",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace,
            "userInfo": {"username": "eve", "groups": ["system:authenticated"]},
            "object": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "web"},
                "spec": spec,
            },
        },
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with two workers and the default settings."""
    with serving(tmp_path_factory.mktemp("serve"), "contact: '#platform'\n") as running:
        yield running


def patch(answer: dict[str, Any]) -> Any:
    return json.loads(base64.b64decode(answer["response"]["patch"]))


def assert_status(body: dict[str, Any], code: int, message: str) -> None:
    """API servers show the message of a Status to the user, and of any other answer only
    "an error on the server".
    """
    assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure")
    assert (body["code"], body["message"]) == (code, message)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_review_is_answered_in_its_own_version(served: Served, version: str) -> None:
    review = {**pod("payments"), "apiVersion": f"admission.k8s.io/{version}"}
    answer = served.send(review).json()
    assert answer["apiVersion"] == f"admission.k8s.io/{version}"
    assert answer["kind"] == "AdmissionReview"
    assert answer["response"]["uid"] == "42"
    assert answer["response"]["allowed"] is True
    assert answer["response"]["patchType"] == "JSONPatch"
    note = '{"nodeSelector":{"agentpool":"pool1"},"tolerations":[]}'
    assert patch(answer) == [
        {"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": "pool1"}},
        {"op": "add", "path": "/metadata/annotations", "value": {"fairlead.dev/assigned": note}},
    ]
    assert answer["response"]["auditAnnotations"] == {
        "node-pool": "placed: pool1",
        "decisionUID": "42",
    }


def test_a_refusal_has_its_reason_and_whom_to_ask(served: Served) -> None:
    response = served.send(pod("payments", nodeName="n1")).json()["response"]
    assert response["allowed"] is False
    assert response["status"] == {
        "code": 403,
        "reason": "Forbidden",
        "message": 'pod "web" sets spec.nodeName=n1, but namespace "payments" places its pods in '
        'pool "pool1": remove spec.nodeName (ask #platform)',
    }
    assert "patch" not in response


def test_a_pod_that_is_too_large_is_refused_unless_nothing_that_is_judged_changes(
    served: Served,
) -> None:
    env = [{"name": "a", "value": "b"}] * 10_001
    review = pod("payments", containers=[{"name": "c", "env": env}])
    response = served.send(review).json()["response"]
    assert (response["allowed"], response["status"]["code"]) == (False, 403)
    assert response["status"]["message"].startswith("it has more than 10000 entries in its lists")
    request = review["request"]
    request |= {"operation": "UPDATE", "oldObject": {**request["object"], "status": {}}}
    assert served.send(review).json()["response"]["allowed"] is True


def test_a_webhook_asks_for_its_own_policy(served: Served) -> None:
    assert served.send(pod("payments"), "/intents/node-pool").json()["response"]["allowed"] is True
    refused = served.send(pod("payments", nodeName="n1"), "/intents/node-pool").json()
    assert refused["response"]["allowed"] is False
    missing = served.send(pod("payments"), "/intents/replica-limits")
    assert missing.status_code == 404
    assert_status(missing.json(), 404, "no policy replica-limits is in force")


def test_without_policies_the_user_reads_what_to_do(tmp_path: Path) -> None:
    with fake_apiserver.running() as api:
        worker = application._Worker(None, api.kubeconfig(tmp_path), tmp_path)
    request = Request({"type": "http", "method": "POST", "path": "/", "path_params": {}})
    response = asyncio.run(worker.review(request))
    assert response.status_code == 503
    message = (
        "the server in Python is starting: retry in a second. If this lasts, `fairlead status` "
        "says why"
    )
    assert_status(json.loads(bytes(response.body)), 503, message)


def test_a_worker_that_cannot_read_policies_says_so_before_api_servers_give_up(
    tmp_path: Path,
) -> None:
    with fake_apiserver.running() as api:
        worker = application._Worker(None, api.kubeconfig(tmp_path), tmp_path)

    async def seconds_to_start() -> float:
        began = time.monotonic()
        async with worker.lifespan(Starlette()):
            return time.monotonic() - began

    assert asyncio.run(seconds_to_start()) < Settings().timeout_seconds - 2


def test_a_new_namespace_is_looked_up(served: Served) -> None:
    served.api.put("namespaces", "fresh", labels={"agentpool": "pool2"})
    answer = served.send(pod("fresh")).json()
    assert patch(answer)[0]["value"] == {"agentpool": "pool2"}


def test_a_namespace_that_got_its_label_just_now_is_looked_up(served: Served) -> None:
    served.api.put("namespaces", "free", labels={"agentpool": "pool3"})
    answer = served.send(pod("free")).json()
    assert patch(answer)[0]["value"] == {"agentpool": "pool3"}


def test_a_pod_of_a_namespace_that_nobody_knows_is_refused(served: Served) -> None:
    response = served.send(pod("nowhere")).json()["response"]
    assert response["allowed"] is False
    assert response["status"]["message"].startswith(
        'pod "web": namespace "nowhere" is not known to the policy yet: retry in a moment'
    )


def test_the_workers_of_a_killed_server_leave_its_port(tmp_path: Path) -> None:
    with serving(tmp_path, "{}") as served:
        served.process.kill()
        served.process.wait()

        def free() -> bool:
            try:
                served.connect().close()
            except ConnectionRefusedError:
                return True
            except OSError:  # a worker that is about to end
                return False
            return False

        waiting.until(free, deadline=60.0, what="nothing listens any more")


def test_without_an_api_server_unknown_namespaces_are_refused_and_known_ones_are_not(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "{}", workers=1) as served:
        served.api.stop()
        assert served.send(pod("payments")).json()["response"]["allowed"] is True
        assert served.send(pod("fresh")).json()["response"]["allowed"] is False
        waiting.until(
            lambda: served.get("/health/ready").status_code == 503,
            deadline=60.0,
            what="the server says that its namespaces may be old",
        )
        assert served.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("body", "headers", "status", "message"),
    [
        (b"{", {}, 400, "the review is not JSON"),
        (b"\xff\xfe", {}, 400, "the review is not JSON"),
        (b"", {}, 400, "the review is not JSON"),
        (b'{"a": NaN}', {}, 400, "NaN is not a number of JSON"),
        (b'{"a": -Infinity}', {}, 400, "-Infinity is not a number of JSON"),
        (b'{"a": 1e999}', {}, 400, "1e999 is too large"),
        (b"[" * 200_000, {}, 400, "the review is nested too deeply"),
        (b" " * (LARGEST_REVIEW + 1), {}, 413, f"has more than {LARGEST_REVIEW} bytes"),
        (
            gzip.compress(b" " * 10**7),
            {"Content-Encoding": "gzip"},
            415,
            "send the review as it is",
        ),
    ],
    ids=["half", "no UTF-8", "empty", "NaN", "infinite", "huge number", "deep", "large", "gzip"],
)
def test_what_holds_no_review_is_an_error(
    served: Served, body: bytes, headers: dict[str, str], status: int, message: str
) -> None:
    response = served.send(body, **headers)
    assert response.status_code == status
    assert message in response.json()["error"]
    assert_status(response.json(), status, response.json()["error"])
    assert response.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"apiVersion": "admission.k8s.io/v2"}, "the review is not an AdmissionReview"),
        ({"kind": "Pod"}, "the review is not an AdmissionReview"),
        ({"request": None}, "the review is not an AdmissionReview"),
        ({"request": {"uid": "1", "operation": "CREATE"}}, "request.kind has no kind"),
        ({"request": {"uid": 1, "kind": {"kind": "Pod"}, "operation": "X"}}, "request.operation"),
    ],
)
def test_a_review_that_cannot_be_read_is_refused(
    served: Served, change: dict[str, Any], message: str
) -> None:
    answer = served.send({**pod("payments"), **change}).json()
    assert answer["apiVersion"] == "admission.k8s.io/v1"
    assert answer["response"]["allowed"] is False
    assert message in answer["response"]["status"]["message"]


@pytest.mark.parametrize("body", [b"null", b"[]", b"7", b'"text"'])
def test_json_that_is_no_object_is_refused(served: Served, body: bytes) -> None:
    assert served.send(body).json()["response"]["allowed"] is False


def test_a_lone_surrogate_in_a_name_is_quoted(served: Served) -> None:
    review = pod("payments", nodeName="n1")
    review["request"]["object"]["metadata"]["name"] = "\ud800"
    assert served.send(review).json()["response"]["allowed"] is False


def test_other_methods_and_paths_are_not_served(served: Served) -> None:
    assert served.get("/").status_code == 405
    assert served.get("/v1/data").status_code == 404


def test_the_metrics_are_those_of_all_workers(served: Served) -> None:
    def refused() -> float:
        text = served.get("/metrics").text
        match = re.search(r'fairlead_serve_decisions_total\{outcome="refused"\} (\S+)', text)
        return float(match[1]) if match else 0.0

    before = refused()
    for _ in range(20):
        served.send(pod("payments", nodeName="n1"))
    assert {refused() for _ in range(8)} == {before + 20}


def test_connections_send_each_part_of_an_answer_at_once() -> None:
    """Otherwise an API server that delays its acknowledgements waits 40 ms for each answer."""
    with (
        listening("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def ends(connection: ssl.SSLSocket) -> bytes:
    """What the server still sends until it closes the connection."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"POST / HTTP/1.1\r\nHost: x\r\n", b""),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 408"),
        # Not longer: the server closes without reading the rest, which can take the answer away.
        (b"POST / HTTP/1.1\r\nHost: x\r\nX: ".ljust(HEAD + 1, b"x"), b"HTTP/1.1 400"),
    ],
    ids=["nothing", "half a head", "half a body", "a long head"],
)
def test_a_client_that_does_not_send_its_request_is_sent_away(
    served: Served, sent: bytes, answer: bytes
) -> None:
    with served.connect() as connection:
        connection.sendall(sent)
        assert ends(connection).startswith(answer)
    assert served.send(pod("payments")).ok


def test_a_replaced_certificate_is_served_at_once_and_a_broken_one_is_not(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "{}", workers=1) as served:
        before = certificate(served)
        (tmp_path / "tls.crt").write_text("broken")
        assert certificate(served) == before
        ca = CA.create("second", HOUR)
        with (tmp_path / "ca.crt").open("ab") as file:
            file.write(ca.cert_pem)
        write_certificate(tmp_path, ca, "second")
        assert certificate(served) != before


def certificate(served: Served) -> bytes | None:
    with served.connect() as connection:
        return connection.getpeercert(binary_form=True)


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with serving(tmp_path, "{}", workers=1) as served:
        worker = children(served)[-1]
        os.kill(worker, signal.SIGKILL)
        waiting.until(
            lambda: worker not in children(served) and served.ready(),
            deadline=60.0,
            what="another worker answers",
        )
        assert served.send(pod("payments")).json()["response"]["allowed"] is True


def children(served: Served) -> list[int]:
    pid = served.process.pid
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_requests_that_have_arrived_are_answered_before_the_end(tmp_path: Path) -> None:
    with serving(tmp_path, "{}", workers=1) as served, served.connect() as connection:
        body = json.dumps(pod("payments")).encode()
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        connection.sendall(head + body[:-1])
        # Another request, answered after the first one has arrived: the server knows both.
        assert served.send(pod("payments")).ok
        served.process.send_signal(signal.SIGTERM)
        threading.Timer(0.2, connection.sendall, [body[-1:]]).start()
        assert b'"allowed": true' in ends(connection)
        assert served.process.wait(30) == 0


def refused(folder: Path, *further: str) -> str:
    """The message with which the command refuses these options."""
    arguments = [
        f"--settings={folder / 'fairlead.yaml'}",
        f"--kubeconfig={folder / 'kubeconfig'}",
        f"--tls-cert-file={folder / 'tls.crt'}",
        f"--tls-private-key-file={folder / 'tls.key'}",
        *further,
    ]
    with pytest.raises(FairleadError) as error:
        CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)
    return str(error.value)


def test_what_cannot_be_served_is_said_before_anything_starts(tmp_path: Path) -> None:
    ca = CA.create("test", HOUR)
    write_certificate(tmp_path, ca, "first")
    settings = tmp_path / "fairlead.yaml"
    settings.write_text("{}")
    assert "is not a usable kubeconfig" in refused(tmp_path)
    with fake_apiserver.running() as api:
        api.kubeconfig(tmp_path)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            message = refused(tmp_path, f"--listen=127.0.0.1:{taken.getsockname()[1]}")
            assert "Address already in use" in message
            assert message.endswith("choose another with --listen")
        assert "is not an address" in refused(tmp_path, "--listen=8443")
        (tmp_path / "tls.key").write_text("broken")
        assert "is not a certificate that matches the key" in refused(tmp_path)


def from_address(served: Served, number: int) -> ssl.SSLSocket:
    """A connection from an address of its own, of the many that mean this machine."""
    raw = socket.create_connection(
        ("127.0.0.1", served.port), timeout=20, source_address=(f"127.0.0.{number}", 0)
    )
    context = ssl.create_default_context(cafile=str(served.folder / "ca.crt"))
    return context.wrap_socket(raw, server_hostname="127.0.0.1")


def answered(connection: ssl.SSLSocket, body: bytes) -> bytes:
    head = f"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return ends(connection)


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is this machine on Linux alone")
@pytest.mark.parametrize("address", [2, 3], ids=["of that address itself", "of another one"])
def test_idle_connections_of_one_address_keep_nobody_from_an_answer(
    tmp_path: Path, address: int
) -> None:
    review = json.dumps(pod("payments")).encode()
    with serving(tmp_path, "{}", workers=1) as served, ExitStack() as open_connections:
        for _ in range(CONNECTIONS + 20):
            try:
                connection = open_connections.enter_context(from_address(served, 2))
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                connection.recv(1000)
            except OSError:
                continue  # one too many
        for _ in range(5):
            with from_address(served, address) as connection:
                assert b'"allowed": true' in answered(connection, review)


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is this machine on Linux alone")
def test_unfinished_reviews_take_bounded_memory_and_keep_no_other_from_an_answer(
    tmp_path: Path,
) -> None:
    review, size = json.dumps(pod("payments")).encode(), LARGEST_REVIEW - 1000
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
    with serving(tmp_path, "{}", workers=1) as served, ExitStack() as open_connections:
        for _ in range(100):
            try:
                connection = open_connections.enter_context(from_address(served, 2))
                connection.sendall(head + b"[" + b"{}," * ((size - 10) // 3))
            except OSError:
                continue  # refused before its end
        with from_address(served, 3) as connection:
            assert b'"allowed": true' in answered(connection, review)
        pids = [served.process.pid, *children(served)]
        assert sum(map(limits.peak, pids)) < 384 * 2**20, "half of the container's memory"

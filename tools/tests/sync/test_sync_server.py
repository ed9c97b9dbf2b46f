"""The sidecar's HTTPS server."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from fairlead.common import waiting
from fairlead.common.digests import digest
from fairlead.common.errors import FairleadError, InputError, UsageError
from fairlead.deployment.names import OBJECT_REVIEWS
from fairlead.opa.containers import LARGEST_REVIEW
from fairlead.pki.certificates import CA
from fairlead.pki.key_files import write_pair
from fairlead.sync import connection_limits
from fairlead.sync import server as library
from fairlead.sync.connection_limits import loopback
from fairlead.sync.decision_uploads import LARGEST, Decisions
from fairlead.sync.metrics import Metrics
from fairlead.sync.server import Server
from fairlead.sync.server_certificates import Certificate

HOUR = timedelta(hours=1)
DEADLINE = 20.0
THIN = {"metadata": {"name": "payments", "labels": {"agentpool": "p"}}}


class Site:
    """A running server whose answers the test controls."""

    def __init__(self, folder: Path) -> None:
        self.issuing_ca = CA.create("test", HOUR)
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(self.issuing_ca.cert_pem)
        self.folder = folder
        self.issue("first")
        self.health: dict[str, Any] = {"healthy": True, "reasons": []}
        self.live: dict[str, Any] = {"live": True, "hung": []}
        self.look_up: Callable[[str], dict[str, Any] | None] = {"payments": THIN}.get
        self.metrics, self.written = Metrics(), list[str]()
        self.review: Callable[[bytes], dict[str, Any]] = lambda body: {"size": len(body)}
        self.certificate = Certificate(folder / "server.crt", folder / "server.key")
        self.server = Server(
            "127.0.0.1:0",
            self.certificate,
            health=lambda: self.health,
            live=lambda: self.live,
            metrics=self.metrics.registry,
            look_up=lambda name: self.look_up(name),
            decisions=Decisions(self.metrics, self.written.append),
            accepts=lambda token: token == "the-token",
            review=lambda body: self.review(body),
        )
        self.port = self.server.server_address[1]

    def issue(self, name: str) -> None:
        pair = self.issuing_ca.issue(
            name, dns=["localhost"], ips=["127.0.0.1"], server=True, valid=HOUR
        )
        write_pair(pair, self.folder, "server")

    def get(self, path: str, headers: dict[str, str] | None = None) -> requests.Response:
        url = f"https://127.0.0.1:{self.port}{path}"
        return requests.get(url, headers=headers, verify=str(self.ca), timeout=DEADLINE)

    def post(self, path: str, body: bytes) -> requests.Response:
        url = f"https://127.0.0.1:{self.port}{path}"
        return requests.post(url, data=body, verify=str(self.ca), timeout=DEADLINE)

    def common_name(self) -> str:
        """The name in the served certificate."""
        context = ssl.create_default_context(cafile=str(self.ca))
        with (
            socket.create_connection(("127.0.0.1", self.port), DEADLINE) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            subject: Any = (secure.getpeercert() or {})["subject"]
            return str(dict(part[0] for part in subject)["commonName"])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    thread = threading.Thread(target=site.server.serve_forever, args=(0.02,))
    thread.start()
    yield site
    site.server.shutdown()
    thread.join()
    site.server.server_close()


def test_health_is_200_only_while_all_is_well(site: Site) -> None:
    assert (site.get("/health").status_code, site.get("/health").json()) == (200, site.health)
    site.health = {"healthy": False, "reasons": ["OPA is away"]}
    answer = site.get("/health?verbose")
    assert (answer.status_code, answer.json()) == (503, site.health)


def test_live_tells_whether_threads_go_on_whatever_health_says(site: Site) -> None:
    site.health = {"healthy": False, "reasons": ["the API server is away"]}
    assert (site.get("/live").status_code, site.get("/live").json()) == (200, site.live)
    site.live = {"live": False, "hung": ["reconcile has made no progress for 130 s"]}
    assert (site.get("/live").status_code, site.get("/live").json()) == (503, site.live)


def test_metrics_are_in_the_exposition_format(site: Site) -> None:
    answer = site.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    names = (
        "policies",
        "documents",
        "namespaces",
        "errors_total",
        "resyncs_total",
        "lag_seconds",
        "pending",
    )
    for name in names:
        assert f"\nfairlead_sync_{name}" in answer.text
    assert "_created" not in answer.text


def test_a_namespace_is_answered_thin_or_as_unknown_or_as_not_to_be_known(site: Site) -> None:
    assert site.get("/v1/namespaces/payments").json() == THIN
    answer = site.get("/v1/namespaces/none")
    assert (answer.status_code, answer.json()) == (404, {})

    def fail(_: str) -> None:
        raise FairleadError("the API server is away")

    site.look_up = fail
    answer = site.get("/v1/namespaces/payments")
    assert (answer.status_code, answer.json()) == (503, {"message": "the API server is away"})


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "%2e%2e", "a" * 64, "-a"])
def test_what_is_no_namespace_name_is_not_looked_up(site: Site, name: str) -> None:
    def fail(_: str) -> None:
        raise AssertionError("looked up")

    site.look_up = fail
    assert site.get(f"/v1/namespaces/{name}").status_code == 404


def test_only_loopback_may_look_up_namespaces(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "loopback", lambda _: False)
    assert site.get("/v1/namespaces/payments").status_code == 403
    assert site.get("/health").status_code == 200


def decision(**response: Any) -> dict[str, Any]:
    return {"decision_id": "1", "result": {"response": {"uid": "42", **response}}}


def packed(entries: Any) -> bytes:
    return gzip.compress(json.dumps(entries).encode())


def test_each_decision_is_counted_by_intent_and_outcome_and_written_as_one_line(site: Site) -> None:
    expected: list[tuple[str, str, dict[str, Any]]] = [
        (
            "node-pool",
            "placed",
            {
                "allowed": True,
                "auditAnnotations": {"node-pool": "placed: gpu", "decisionUID": "42"},
            },
        ),
        (
            "node-pool",
            "denied",
            {"allowed": False, "auditAnnotations": {"node-pool": "refused: a\nb: c"}},
        ),
        (
            "node-pool",
            "warned",
            {"allowed": True, "auditAnnotations": {"node-pool": "would be refused: a"}},
        ),
        ("", "allowed", {"allowed": True}),
        ("", "warned", {"allowed": True, "warnings": ["a"]}),
        ("", "denied", {"allowed": False}),
    ]
    entries = [decision(**response) for _, _, response in expected] + [
        {"decision_id": "2", "error": "undefined"}
    ]
    assert site.post("/logs", packed(entries)).status_code == 200
    assert site.post("/logs", packed(entries[:1])).status_code == 200
    counts = {(intent, outcome): 1 for intent, outcome, _ in expected} | {
        ("node-pool", "placed"): 2,
        ("", "failed"): 1,
    }
    page = site.get("/metrics").text
    lines = {line for line in page.splitlines() if line.startswith("fairlead_decisions_total{")}
    assert lines == {
        f'fairlead_decisions_total{{intent="{intent}",outcome="{outcome}"}} {count}.0'
        for (intent, outcome), count in counts.items()
    }
    assert [json.loads(line) for line in site.written] == [*entries, entries[0]]
    assert all(line.count("\n") == 1 and line.endswith("\n") for line in site.written)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        packed([decision(allowed=True)])[:-1],
        packed({}),
        packed([decision(allowed=True), 1]),
        gzip.compress(b"[" + b" " * LARGEST + b"1]"),
        gzip.compress(b"[" * 100_000),
    ],
    ids=["empty", "not packed", "cut off", "an object", "a number", "blanks", "deep"],
)
def test_what_is_no_batch_of_decisions_is_refused_whole(site: Site, body: bytes) -> None:
    assert site.post("/logs", body).status_code == 400
    assert site.written == []
    assert "fairlead_decisions_total{" not in site.get("/metrics").text


def test_no_batch_is_larger_than_opa_makes_them(site: Site) -> None:
    context = ssl.create_default_context(cafile=str(site.ca))
    for length in (str(LARGEST + 1), "-1", "x"):
        connection = http.client.HTTPSConnection(
            "127.0.0.1", site.port, timeout=DEADLINE, context=context
        )
        with contextlib.closing(connection):
            connection.request("POST", "/logs", headers={"Content-Length": length})
            assert connection.getresponse().status == 413


def test_what_intents_decided_is_told_to_whoever_has_the_token(site: Site) -> None:
    answers: list[dict[str, Any]] = [
        {"allowed": False, "auditAnnotations": {"limits": "refused: no"}},
        {"allowed": True, "auditAnnotations": {"limits": "allowed", "node-pool": "placed: p"}},
        {"allowed": True},
    ]
    assert site.post("/logs", packed([decision(**answer) for answer in answers])).ok
    for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "the-token"}):
        assert site.get("/decisions", headers).status_code == 401
    by_intent = site.get("/decisions", {"Authorization": "Bearer the-token"}).json()
    assert {name: entry["counts"] for name, entry in by_intent.items()} == {
        "limits": {"denied": 1, "allowed": 1},
        "node-pool": {"placed": 1},
    }
    assert by_intent["limits"]["last"]["outcome"] == "allowed"


def test_only_loopback_may_upload_decisions(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "loopback", lambda _: False)
    assert site.post("/logs", packed([decision(allowed=True)])).status_code == 403
    assert site.written == []


@pytest.mark.parametrize("path", ["/", "/log", "/logs/", "/health", "/v1/namespaces/payments"])
def test_nothing_else_takes_a_post(site: Site, path: str) -> None:
    assert site.post(path, packed([decision(allowed=True)])).status_code == 404
    assert site.written == []


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("", False),
    ],
)
def test_loopback_is_this_machine_in_every_notation(address: str, own: bool) -> None:
    assert loopback(address) is own


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1", "/v1/namespaces"])
def test_other_paths_are_not_there(site: Site, path: str) -> None:
    assert site.get(path).status_code == 404


def test_a_replaced_certificate_is_served_and_a_broken_one_is_not(site: Site) -> None:
    assert site.common_name() == "first"
    site.issue("second")
    assert site.common_name() == "second"
    second = digest((site.folder / "server.crt").read_bytes())
    assert site.certificate.digest == second
    (site.folder / "server.key").write_text("half")
    assert site.common_name() == "second"
    (site.folder / "server.crt").unlink()
    assert site.common_name() == "second"
    assert site.certificate.digest == second
    site.issue("third")
    assert site.common_name() == "third"


class Slow:
    """A client that never sends a whole request."""

    def __init__(
        self, site: Site, sent: bytes = b"", source: str = "127.0.0.1", *, shakes: bool = True
    ) -> None:
        plain = socket.create_connection(
            ("127.0.0.1", site.port), DEADLINE, source_address=(source, 0)
        )
        context = ssl.create_default_context(cafile=str(site.ca))
        self._socket = context.wrap_socket(plain, server_hostname="localhost") if shakes else plain
        self.send(sent)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> bytes:
        """The server's output until it closes the connection."""
        parts = []
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while part := self._socket.recv(65536):
                parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        self._socket.close()


def test_clients_that_say_nothing_hold_up_nobody_and_take_bounded_threads(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "PATIENCE", 2.0)
    before = threading.active_count()
    silent = [Slow(site, shakes=False) for _ in range(2 * library.LOOK_UPS)]
    try:
        assert site.get("/health").status_code == 200
        most = before + library.LOOK_UPS
        waiting.until(
            lambda: threading.active_count() <= most,
            deadline=DEADLINE,
            what="those that gave way are gone",
        )
        waiting.until(
            lambda: threading.active_count() <= before,
            deadline=DEADLINE,
            what="silent clients are let go",
        )
        assert site.get("/health").status_code == 200
    finally:
        for client in silent:
            client.close()


@pytest.mark.parametrize(
    "request_",
    [b"GET /health HTTP/1.1\r\nX: ", b"POST /logs HTTP/1.1\r\nContent-Length: 100000\r\n\r\n"],
)
def test_a_request_has_a_deadline_as_a_whole(
    site: Site, monkeypatch: pytest.MonkeyPatch, request_: bytes
) -> None:
    """A byte now and then does not extend the time."""
    monkeypatch.setattr(connection_limits, "PATIENCE", 1.0)
    client = Slow(site, request_)

    def ended() -> bool:
        try:
            client.send(b"x")
        except OSError:
            return True
        return False

    with contextlib.closing(client):
        waiting.until(ended, deadline=DEADLINE, what="the slow client is let go")


@pytest.mark.parametrize("sources", [1, 4, 20])
def test_slow_clients_keep_nobody_else_from_health(
    site: Site, monkeypatch: pytest.MonkeyPatch, sources: int
) -> None:
    monkeypatch.setattr(library, "loopback", lambda _: False)
    monkeypatch.setattr(connection_limits, "PATIENCE", 10 * DEADLINE)
    slow = [
        Slow(
            site,
            b"POST /health HTTP/1.1\r\n",
            source=f"127.0.0.{2 + number % sources}",
            shakes=number % 3 > 0,
        )
        for number in range(4 * library.OTHERS)
    ]
    try:
        for _ in range(library.OTHERS):
            assert site.get("/health").status_code == 200
        assert site.get("/metrics").status_code == 200
        # Who has the address of slow clients is served, too.
        other = Slow(site, b"GET /health HTTP/1.0\r\n\r\n", source="127.0.0.2")
        assert other.answer().startswith(b"HTTP/1.0 200 ")
        other.close()
    finally:
        for client in slow:
            client.close()


def test_a_source_with_many_slow_clients_costs_those_their_place_and_no_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "loopback", lambda _: False)
    monkeypatch.setattr(connection_limits, "PATIENCE", 10 * DEADLINE)
    head = b"POST /health HTTP/1.0\r\n"
    patient = Slow(site, head, source="127.0.0.2")
    # As many as there are slots, then more of one source, and at last one of a source that had
    # none.
    sources = [f"127.0.0.{3 + number // library.EACH}" for number in range(library.OTHERS - 1)]
    many = [
        Slow(site, head, source=source)
        for source in [*sources, *library.EACH * ["127.0.0.3"], "127.0.0.9"]
    ]
    try:
        patient.send(b"\r\n")
        assert patient.answer().startswith(b"HTTP/1.0 404 ")
    finally:
        for client in (patient, *many):
            client.close()


def test_a_source_that_has_all_it_may_have_takes_nothing_from_another_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "loopback", lambda _: False)
    monkeypatch.setattr(connection_limits, "PATIENCE", 10 * DEADLINE)
    sources = ["127.0.0.2", "127.0.0.3"]
    slow = [
        Slow(site, b"POST /health HTTP/1.0\r\n", source=source)
        for source in sources
        for _ in range(library.EACH)
    ]
    slow += [Slow(site, source="127.0.0.3") for _ in range(library.EACH)]
    try:
        for patient in slow[: library.EACH]:
            patient.send(b"\r\n")
            assert patient.answer().startswith(b"HTTP/1.0 404 ")
    finally:
        for client in slow:
            client.close()


@pytest.mark.parametrize(
    ("line", "own", "status"),
    [
        (b"POST /logs", False, 403),
        (b"POST /health", False, 404),
        (b"POST /v1/namespaces/payments", True, 404),
        (b"PUT /logs", True, 501),
    ],
)
def test_who_asks_for_what_is_judged_before_a_body_is_read(
    site: Site, monkeypatch: pytest.MonkeyPatch, line: bytes, own: bool, status: int
) -> None:
    monkeypatch.setattr(library, "loopback", lambda _: own)
    monkeypatch.setattr(connection_limits, "PATIENCE", 10 * DEADLINE)
    head = b" HTTP/1.1\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
    with contextlib.closing(Slow(site, line + head)) as client:
        assert client.answer().startswith(f"HTTP/1.0 {status} ".encode())


def test_a_head_is_not_larger_than_any_that_is_meant(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "PATIENCE", 10 * DEADLINE)
    header = b"X: " + b"x" * 1000 + b"\r\n"
    with contextlib.closing(
        Slow(site, b"GET /health HTTP/1.0\r\n" + 10 * header + b"\r\n")
    ) as client:
        assert client.answer().startswith(b"HTTP/1.0 200 ")
    with contextlib.closing(Slow(site, b"GET /health HTTP/1.0\r\n" + 20 * header)) as client:
        assert client.answer() == b""


def test_a_review_is_answered_one_after_the_other_and_within_a_size(site: Site) -> None:
    assert site.post(OBJECT_REVIEWS, b"x" * 1_000_000).json() == {"size": 1_000_000}
    head = f"POST {OBJECT_REVIEWS} HTTP/1.0\r\nContent-Length: {LARGEST_REVIEW + 1}\r\n\r\n"
    with contextlib.closing(Slow(site, head.encode())) as client:
        assert client.answer().startswith(b"HTTP/1.0 413 ")
    upload = site.server.uploads[OBJECT_REVIEWS]
    site.server.uploads[OBJECT_REVIEWS] = replace(upload, wait=0.1)
    with upload.lock:  # the one before takes long
        assert site.post(OBJECT_REVIEWS, b"{}").status_code == 503
    assert site.post(OBJECT_REVIEWS, b"{}").status_code == 200
    site.review = json.loads
    assert site.post(OBJECT_REVIEWS, b"{").status_code == 400


def test_one_upload_is_taken_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """This bounds its memory. OPA sends one upload after the other, and repeats rejected ones."""
    monkeypatch.setattr(connection_limits, "PATIENCE", 10 * DEADLINE)
    body = packed([decision(allowed=True)])
    with contextlib.closing(
        Slow(site, b"POST /logs HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body))
    ) as client:
        waiting.until(
            site.server.uploads["/logs"].lock.locked,
            deadline=DEADLINE,
            what="the first is being taken",
        )
        assert site.post("/logs", body).status_code == 503
        client.send(body)
        assert client.answer().startswith(b"HTTP/1.0 200 ")
    waiting.until(
        lambda: not site.server.uploads["/logs"].lock.locked(),
        deadline=DEADLINE,
        what="the first is taken",
    )
    assert site.post("/logs", body).status_code == 200
    assert len(site.written) == 2


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_a_host_is_one_source_however_many_addresses_it_has(address: str, source: str) -> None:
    assert connection_limits.source(address) == source


def test_a_certificate_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    with pytest.raises(InputError, match=r"server\.crt"):
        Certificate(certificate, key)
    certificate.write_text("half")
    key.write_text("half")
    with pytest.raises(InputError, match=r"server\.key"):
        Certificate(certificate, key)


@pytest.mark.parametrize(
    "endpoint", ["8444", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "192.0.2.1:1"]
)
def test_an_endpoint_that_cannot_be_listened_at_is_refused(site: Site, endpoint: str) -> None:
    with pytest.raises(UsageError, match=r"127\.0\.0\.1:8444|cannot listen"):
        Server(
            endpoint,
            site.certificate,
            health=dict,
            live=dict,
            metrics=site.metrics.registry,
            look_up=lambda _: None,
            decisions=Decisions(site.metrics, None),
        )


def test_a_port_that_is_taken_is_told(site: Site) -> None:
    with pytest.raises(UsageError, match="cannot listen"):
        Server(
            f"127.0.0.1:{site.port}",
            site.certificate,
            health=dict,
            live=dict,
            metrics=Metrics().registry,
            look_up=lambda _: None,
            decisions=Decisions(Metrics(), None),
        )

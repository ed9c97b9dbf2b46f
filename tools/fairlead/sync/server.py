"""The HTTPS server of the sidecar and of the controller: /health, /live and /metrics for everyone,
/v1/namespaces/<name> and /logs for the OPA beside a sidecar, /decisions for whoever has the token
of OPA, and /objects for API servers."""

from __future__ import annotations

import json
import logging
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, cast

from prometheus_client import CollectorRegistry, generate_latest

from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment.names import OBJECT_REVIEWS
from fairlead.opa.containers import LARGEST_REVIEW
from fairlead.sync.connection_limits import Connection, Slots, loopback
from fairlead.sync.decision_uploads import LARGEST, Decisions
from fairlead.sync.server_certificates import Certificate

log = logging.getLogger(__name__)

LOOK_UPS = 128
"""The most connections of clients on loopback at a time. The client is OPA, which opens one for
each lookup."""

OTHERS = 16
"""The most connections of all other clients at a time, so that they cannot delay OPA's lookups."""

EACH = 4
"""The most connections of one other address at a time."""

_PATIENCE = 8.0  # seconds that a review waits for the others; API servers wait for 15

_LENGTH = re.compile(r"[0-9]{1,8}")
_NAMESPACE = re.compile(r"/v1/namespaces/([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)")

Health = Callable[[], dict[str, Any]]
LookUp = Callable[[str], dict[str, Any] | None]


@dataclass(frozen=True)
class Upload:
    """What becomes of the body of a POST: `take` returns the answer, and raises ValueError if the
    body has another form. `for_all` clients, or just for the OPA beside a sidecar.

    A body has at most `largest` bytes. They are taken one at a time; one that would have to wait
    for longer than `wait` seconds is not taken.
    """

    take: Callable[[bytes], dict[str, Any]]
    largest: int
    wait: float = 0.0
    for_all: bool = False
    lock: Lock = field(default_factory=Lock)


class Server(ThreadingHTTPServer):
    """Serves the results of `health`, `live`, `metrics` and `look_up`, passes OPA's uploads to
    `decisions`, and answers reviews of Fairlead's objects by `review`.

    One thread calls `serve_forever`.

    `health` returns an object whose "healthy" decides between 200 and 503, and `live` one whose
    "live" does. `look_up` returns a namespace's name and labels, or None if there is no such
    namespace, and raises FairleadError if it cannot tell. If `look_up`, `decisions` or `review` is
    None, its path answers 404. `accepts` says whether a token is that of OPA.
    """

    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        endpoint: str,
        certificate: Certificate,
        *,
        health: Health,
        live: Health,
        metrics: CollectorRegistry,
        look_up: LookUp | None = None,
        decisions: Decisions | None = None,
        accepts: Callable[[str], bool] = lambda token: False,
        review: Callable[[bytes], dict[str, Any]] | None = None,
    ) -> None:
        """`endpoint` is host:port. Raises UsageError if the server cannot listen there."""
        host, port = _endpoint(endpoint)
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.health = health
        self.live = live
        self.metrics = metrics
        self.look_up = look_up
        self.decisions = decisions
        self.accepts = accepts
        self._certificate = certificate
        self.uploads: dict[str, Upload] = {}
        """By path. One at a time is enough: OPA sends one after the other, and reviews are rare."""
        if decisions:
            self.uploads["/logs"] = Upload(_logged(decisions), LARGEST)
        if review:
            self.uploads[OBJECT_REVIEWS] = Upload(review, LARGEST_REVIEW, _PATIENCE, for_all=True)
        self._slots = {True: Slots(LOOK_UPS, LOOK_UPS), False: Slots(OTHERS, EACH)}
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen at {endpoint}: {error}") from error

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection, or close it if there are too many of its kind."""
        context = self._certificate.context()
        secured = context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        connection = cast(Connection, secured)  # the context's sslsocket_class
        connection.accept_from(client_address[0])
        slots = self._slots[loopback(client_address[0])]
        if not slots.admit(connection):
            connection.close()
            return
        thread = Thread(target=self._serve, args=(slots, connection, client_address), daemon=True)
        try:
            thread.start()
        except BaseException:
            slots.release(connection)
            raise

    def _serve(self, slots: Slots, connection: Connection, client_address: Any) -> None:
        """Serve one connection, in its thread.

        The TLS handshake happens here and not where connections are accepted, so that a slow client
        delays nobody else.
        """
        try:
            connection.do_handshake()
            self.finish_request(connection, client_address)
        except Exception:
            self.handle_error(connection, client_address)
        finally:
            slots.release(connection)
            self.shutdown_request(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a broken connection at the level debug only."""
        log.debug("connection from %s: %s", client_address[0], sys.exc_info()[1])


class _Handler(BaseHTTPRequestHandler):
    """Speaks HTTP/1.0, one request a connection: OPA opens a new one for each lookup anyway."""

    server: Server
    connection: Connection
    server_version = "fairlead"
    sys_version = ""

    def do_GET(self) -> None:
        self.connection.answering()
        path = self.path.partition("?")[0]
        if path == "/health":
            health = self.server.health()
            self._answer(
                HTTPStatus.OK if health["healthy"] else HTTPStatus.SERVICE_UNAVAILABLE, health
            )
        elif path == "/live":
            live = self.server.live()
            self._answer(HTTPStatus.OK if live["live"] else HTTPStatus.SERVICE_UNAVAILABLE, live)
        elif path == "/metrics":
            self._send(
                HTTPStatus.OK,
                "text/plain; version=0.0.4; charset=utf-8",
                generate_latest(self.server.metrics),
            )
        elif path == "/decisions" and self.server.decisions:
            self._decisions(self.server.decisions)
        elif path.startswith("/v1/namespaces/") and self.server.look_up:
            self._namespace(self.server.look_up, path)
        else:
            self._answer(HTTPStatus.NOT_FOUND, {})

    def do_POST(self) -> None:
        """Check the client and the path before the body is read."""
        upload = self.server.uploads.get(self.path.partition("?")[0])
        if upload is None:
            self._answer(HTTPStatus.NOT_FOUND, {})
        elif upload.for_all or self._admit_own_opa():
            self._upload(upload)

    def _upload(self, upload: Upload) -> None:
        length = self.headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length) or int(length) > upload.largest:
            self._answer(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                {"message": f"give the length, at most {upload.largest}"},
            )
        else:
            self._take(upload, int(length))

    def _take(self, upload: Upload, length: int) -> None:
        """Take a body in its turn. One that anybody may send is read before, as a slow client would
        keep others waiting, and one of OPA after that, which bounds the memory.
        """
        body = self._read(length) if upload.for_all else None
        if not upload.lock.acquire(timeout=upload.wait):
            self._answer(
                HTTPStatus.SERVICE_UNAVAILABLE,
                {"message": "another upload is being taken: send it again"},
            )
            return
        try:
            answer = upload.take(self._read(length) if body is None else body)
        except ValueError as error:
            self._answer(HTTPStatus.BAD_REQUEST, {"message": str(error)})
        else:
            self._answer(HTTPStatus.OK, answer)
        finally:
            upload.lock.release()

    def _read(self, length: int) -> bytes:
        self.connection.allowance += length
        body = self.rfile.read(length)
        self.connection.answering()
        return body

    def _admit_own_opa(self) -> bool:
        """Whether the client is the OPA beside this sidecar; other clients get 403."""
        is_local = loopback(self.client_address[0])
        if not is_local:
            self._answer(HTTPStatus.FORBIDDEN, {"message": "only for the OPA beside this sidecar"})
        return is_local

    def _decisions(self, decisions: Decisions) -> None:
        """They name objects of users, so they are not for everyone."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme == "Bearer" and self.server.accepts(token):
            self._answer(HTTPStatus.OK, decisions.by_intent())
        else:
            self._answer(HTTPStatus.UNAUTHORIZED, {"message": "send the token of OPA"})

    def _namespace(self, look_up: LookUp, path: str) -> None:
        if not self._admit_own_opa():
            return
        match = _NAMESPACE.fullmatch(path)
        try:
            namespace = look_up(match[1]) if match else None
        except FairleadError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"message": str(error)})
        else:
            self._answer(
                HTTPStatus.NOT_FOUND if namespace is None else HTTPStatus.OK, namespace or {}
            )

    def _answer(self, status: HTTPStatus, value: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: HTTPStatus, type_: str, body: bytes) -> None:
        self.connection.answering()
        self.send_response(status)
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("%s " + format, self.client_address[0], *args)


def _logged(decisions: Decisions) -> Callable[[bytes], dict[str, Any]]:
    def take(batch: bytes) -> dict[str, Any]:
        decisions.take(batch)
        return {}

    return take


def _endpoint(endpoint: str) -> tuple[str, int]:
    host, colon, port = endpoint.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise UsageError(
            f"{endpoint!r} is not an endpoint: give host:port, for instance 127.0.0.1:8444"
        )
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - without a host, listen everywhere, as kube-mgmt does

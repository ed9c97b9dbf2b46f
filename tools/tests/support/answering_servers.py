"""A web server that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from fairlead.clusters.embedded import ports
from fairlead.deployment.credentials import Tls


@dataclass(frozen=True)
class Request:
    """What a client sent: the path with its query, and the headers, whose names ignore case."""

    method: str
    path: str
    headers: Message

    @property
    def authorization(self) -> str:
        return str(self.headers.get("Authorization", ""))


@dataclass(frozen=True)
class Reply:
    """An answer; `more` follows the body, block by block, without a Content-Length."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    more: Iterator[bytes] | None = None


class Web:
    """A server on loopback that answers by a function, and keeps what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []


@contextmanager
def serving(answer: Callable[[Request], Reply], tls: Tls | None = None) -> Iterator[Web]:
    """Serve while the block runs, with `tls` by HTTPS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.command, self.path, self.headers)
            web.requests.append(request)
            reply = answer(request)
            self.close_connection = True
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.more is None:
                self.send_header("Content-Length", str(len(reply.body)))
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                self.wfile.write(reply.body)
                for block in reply.more or ():
                    self.wfile.write(block)
            except OSError:
                """The client has heard enough."""

        do_GET = do_HEAD = do_POST = do_PUT = handle_one  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer((ports.HOST, 0), Handler) as server:
        server.daemon_threads = True
        if tls:
            server.socket = _context(tls).wrap_socket(server.socket, server_side=True)
        web = Web(f"{'https' if tls else 'http'}://{ports.HOST}:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield web
        finally:
            server.shutdown()


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(tls.certificate + tls.key)
        context.load_cert_chain(file.name)
    return context

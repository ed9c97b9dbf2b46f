"""A TLS server that reports whether it is Ready, and otherwise answers with its name or with the
request's body."""

from __future__ import annotations

import ssl
import sys
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from fairlead.pki.certificates import CA
from fairlead.pki.key_files import write_pair

VALID = timedelta(hours=1)


class ReadyServer:
    """Serves on loopback from `start` to `stop`, with a certificate of the CA `ca`; `ready`
    may change at any time.
    """

    def __init__(self, name: str, ca: CA, folder: Path) -> None:
        self.name = name
        self.ready = True
        self.late = 0.0
        self.looks = 0
        self.ca = folder / f"{name}.ca.crt"
        self.ca.write_bytes(ca.cert_pem)
        pair = ca.issue(name, ips=["127.0.0.1"], server=True, valid=VALID)
        write_pair(pair, folder, name)
        self._files = folder / f"{name}.crt", folder / f"{name}.key"
        self._server: _Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/health/ready"

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self.port), self)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self._files)
        self._server.context = context
        self.port = self._server.server_address[1]
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()
        self._server = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    context: ssl.SSLContext

    def __init__(self, address: tuple[str, int], owner: ReadyServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def finish_request(self, request: object, client_address: object) -> None:
        with self.context.wrap_socket(request, server_side=True) as secure:  # type: ignore[arg-type]
            super().finish_request(secure, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        assert isinstance(sys.exc_info()[1], OSError), sys.exc_info()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        owner = self.server.owner
        look = self.path == "/health/ready"
        if look:
            owner.looks += 1
            time.sleep(owner.late)
        self.send_response(200 if owner.ready or not look else 500)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or owner.name.encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass

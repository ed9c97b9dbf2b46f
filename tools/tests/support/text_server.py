"""A web server that serves one text with an ETag, and what clients asked of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class TextServer:
    """What the server says: `status`, and for 200 the `text` with its `etag`. `answers` are the
    statuses of the answers so far.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = 200
        self.text = ""
        self.etag = '"1"'
        self.answers: list[int] = []


@contextmanager
def serving() -> Iterator[TextServer]:
    """A server on loopback while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = told.status
            if status == 200 and self.headers.get("If-None-Match") == told.etag:
                status = 304
            told.answers.append(status)
            body = told.text.encode() if status == 200 else b""
            self.send_response(status)
            self.send_header("ETag", told.etag)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told = TextServer(f"http://127.0.0.1:{server.server_port}/prices.yaml")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield told
        finally:
            server.shutdown()

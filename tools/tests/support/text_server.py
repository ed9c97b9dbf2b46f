"""A web server that serves one text with an ETag, and what clients asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import answering_servers
from answering_servers import Reply, Request


class TextServer:
    """What the server says: `status`, and for 200 the `text` with its `etag`. `answers` are the
    statuses of the answers so far.
    """

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.text = ""
        self.etag = '"1"'
        self.answers: list[int] = []

    def answer(self, request: Request) -> Reply:
        status = self.status
        if status == 200 and request.headers.get("If-None-Match") == self.etag:
            status = 304
        self.answers.append(status)
        return Reply(status, {"ETag": self.etag}, self.text.encode() if status == 200 else b"")


@contextmanager
def serving() -> Iterator[TextServer]:
    """A server on loopback while the block runs."""
    server = TextServer()
    with answering_servers.serving(server.answer) as web:
        server.url = f"{web.url}/prices.yaml"
        yield server

"""Sends requests without repairing their path, method or headers, as HTTP libraries would. The
classes say what they add.

Connections are kept open, and opened again after an answer that closes them.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
import ssl
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

# seconds; an answer takes milliseconds, but this machine may be busy
_WITHIN = 60.0
_SHORT = 65_535
"""The most bytes of a body that HTTP/2 sends before the server grants more (RFC 9113, 6.9.2)."""

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Response:
    """An answer: its status, its headers as one text, and its uncompressed body."""

    status: int
    headers: bytes
    body: bytes

    @property
    def text(self) -> bytes:
        """The whole answer, to search it for secrets."""
        return self.headers + b"\n" + self.body


class Client(Protocol):
    """Sends one request after another to one server."""

    def send(self, method: bytes, target: bytes, headers: Headers, body: bytes) -> Response | None:
        """The answer; None if the server closes the connection or the stream instead. Raises
        OSError if the connection fails.
        """

    def close(self) -> None:
        """Close the connection."""


class Http1:
    """HTTP/1.0 or 1.1. `send` adds a Host and a Content-Length, and applies a Transfer-Encoding
    header to the body.

    `source` is the local address that the connection comes from.
    """

    def __init__(
        self, address: tuple[str, int], ca: Path, version: str = "1.1", source: str = ""
    ) -> None:
        self._address = address
        self._source = source
        self._context = ssl.create_default_context(cafile=str(ca))
        self._version = version.encode()
        self._socket: ssl.SSLSocket | None = None

    def send(self, method: bytes, target: bytes, headers: Headers, body: bytes) -> Response | None:
        """See Client.send."""
        lines = [
            method + b" " + target + b" HTTP/" + self._version,
            b"Host: " + _authority(self._address),
        ]
        lines += [name + b": " + value for name, value in headers]
        if any(name.lower() == b"transfer-encoding" for name, _ in headers):
            sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        else:
            lines.append(b"Content-Length: %d" % len(body))
            sent = body
        message = b"\r\n".join(lines) + b"\r\n\r\n" + sent
        fresh = self._socket is None
        try:
            return self._exchange(message, method)
        except (ConnectionError, ssl.SSLError, http.client.BadStatusLine):
            self.close()
            # The server may have closed a kept connection because of an earlier request.
            return None if fresh else self.send(method, target, headers, body)

    def close(self) -> None:
        """See Client.close."""
        if self._socket:
            self._socket.close()
            self._socket = None

    def _exchange(self, message: bytes, method: bytes) -> Response:
        if self._socket is None:
            self._socket = _secured(_connect(self._address, self._source), self._context)
        # The server may answer before it has read everything.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(message)
        answer = http.client.HTTPResponse(self._socket, method=method.decode("latin-1"))
        try:
            answer.begin()
            body = answer.read()
        except http.client.IncompleteRead as error:
            raise ConnectionResetError("half an answer") from error
        finally:
            ends = answer.will_close
            answer.close()
            if ends:
                self.close()
        head = "\n".join(f"{name}: {value}" for name, value in answer.getheaders())
        return Response(
            answer.status,
            head.encode("latin-1"),
            _plain(body, answer.getheader("Content-Encoding") or ""),
        )


class Http2:
    """HTTP/2 in clear text with prior knowledge (RFC 9113, 3.3), one stream after another."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._h2: h2.connection.H2Connection | None = None

    def send(self, method: bytes, target: bytes, headers: Headers, body: bytes) -> Response | None:
        """See Client.send. Bodies are cut to what HTTP/2 sends without another grant from the
        server.
        """
        fresh = self._socket is None
        try:
            return self._exchange(method, target, headers, body[: _SHORT - 1])
        except (ConnectionError, h2.exceptions.ProtocolError):
            self.close()
            # The server may have closed a kept connection because of an earlier request.
            return None if fresh else self.send(method, target, headers, body)

    def close(self) -> None:
        """See Client.close."""
        if self._socket:
            self._socket.close()
        self._socket = self._h2 = None

    def _exchange(
        self, method: bytes, target: bytes, headers: Headers, body: bytes
    ) -> Response | None:
        connection, link = self._connected()
        stream = connection.get_next_available_stream_id()
        head = [
            (b":method", method),
            (b":scheme", b"http"),
            (b":authority", _authority(self._address)),
        ]
        head += [(b":path", target), *((name.lower(), value) for name, value in headers)]
        connection.send_headers(stream, head, end_stream=not body)
        for start in range(0, len(body), 16_384):  # the largest frame that a server must accept
            connection.send_data(stream, body[start : start + 16_384])
        if body:
            connection.end_stream(stream)
        link.sendall(connection.data_to_send())
        header_fields: list[tuple[bytes, bytes]] = []
        data = b""
        while True:
            received = link.recv(65_536)
            if not received:
                raise ConnectionResetError
            for event in connection.receive_data(received):
                if isinstance(event, h2.events.ConnectionTerminated):
                    raise ConnectionResetError
                if getattr(event, "stream_id", stream) != stream:
                    continue
                if isinstance(event, h2.events.ResponseReceived):
                    header_fields = [(_bytes(name), _bytes(value)) for name, value in event.headers]
                elif isinstance(event, h2.events.DataReceived):
                    data += event.data
                    connection.acknowledge_received_data(event.flow_controlled_length, stream)
                elif isinstance(event, h2.events.StreamReset) and not header_fields:
                    return None
                elif isinstance(event, h2.events.StreamReset | h2.events.StreamEnded):
                    link.sendall(connection.data_to_send())
                    return _response(header_fields, data)
            link.sendall(connection.data_to_send())

    def _connected(self) -> tuple[h2.connection.H2Connection, socket.socket]:
        if self._socket is None or self._h2 is None:
            config = h2.config.H2Configuration(
                header_encoding=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
            self._h2 = h2.connection.H2Connection(config)
            self._h2.initiate_connection()
            self._socket = _connect(self._address)
            self._socket.sendall(self._h2.data_to_send())
        return self._h2, self._socket


def _response(headers: list[tuple[bytes, bytes]], data: bytes) -> Response:
    named = dict(headers)
    head = b"\n".join(name + b": " + value for name, value in headers)
    return Response(
        int(named[b":status"]),
        head,
        _plain(data, named.get(b"content-encoding", b"").decode("latin-1")),
    )


def _bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")


def _connect(address: tuple[str, int], source: str = "") -> socket.socket:
    connected = socket.create_connection(address, timeout=_WITHIN, source_address=(source, 0))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _secured(connected: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    try:
        return context.wrap_socket(connected, server_hostname=connected.getpeername()[0])
    except BaseException:
        connected.close()
        raise


def _authority(address: tuple[str, int]) -> bytes:
    return f"{address[0]}:{address[1]}".encode()


def _plain(body: bytes, encoding: str) -> bytes:
    if "gzip" not in encoding:
        return body
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error):
        return body

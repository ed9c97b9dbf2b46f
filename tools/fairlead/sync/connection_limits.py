"""Limits what clients of the sidecar's server may use: time, bytes, and connections by kind and
source.

The standard library bounds each read, and counts lines: a client that sends a byte now and then
keeps its connection for ever, and a hundred long headers are megabytes.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from ipaddress import IPv6Address, ip_address, ip_network
from threading import Lock
from typing import Any

PATIENCE = 5.0
"""Seconds for a whole request (the handshake, the headers and the body), and as many again for
the answer."""

HEAD = 16 * 1024
"""Bytes of a request line with its headers."""


class Connection(ssl.SSLSocket):
    """A TLS connection that has one deadline for all its reads and writes, and that reads no more
    than it is allowed.

    `SSLContext.sslsocket_class` makes them. Reads and writes raise TimeoutError after the deadline,
    and reads ConnectionAbortedError beyond `allowance`.
    """

    source = ""
    """Where it comes from; see `source`."""

    waiting = True
    """Whether the client has not sent its whole request yet."""

    deadline = 0.0
    allowance = 0

    def accept_from(self, address: str) -> None:
        """Start the time of the request, whose head alone may be read."""
        self.source, self.allowance = source(address), HEAD
        self.deadline = time.monotonic() + PATIENCE

    def answering(self) -> None:
        """Give the answer its time, as the request is there."""
        self.waiting = False
        self.deadline = time.monotonic() + PATIENCE

    def drop(self) -> None:
        """Wake the thread that reads or writes, and have it fail; callable from any thread."""
        with contextlib.suppress(OSError):
            # SSLSocket's own forgets the session under its reader
            socket.socket.shutdown(self, socket.SHUT_RDWR)

    def do_handshake(self, block: bool = False) -> None:
        self._limit()
        super().do_handshake(block)

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        self._limit()
        count = super().recv_into(buffer, nbytes, flags)
        self.allowance -= count
        if self.allowance < 0:
            raise ConnectionAbortedError("more than may be sent")
        return count

    def send(self, data: Any, flags: int = 0) -> int:
        self._limit()
        return super().send(data, flags)

    def _limit(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("slower than may be")
        self.settimeout(left)


class Slots:
    """At most `total` connections at a time, and at most `each` of one source; for any number of
    threads.

    Where there is no slot left, the connection that has waited longest for its client gives way:
    one of the same source where that has all it may have, else one of the source with the most. A
    client that is slow so holds up itself, and one that sends its request at once is served.
    """

    def __init__(self, total: int, each: int) -> None:
        self._total, self._each = total, each
        self._lock = Lock()
        self._open: dict[Connection, None] = {}  # oldest first

    def admit(self, connection: Connection) -> bool:
        """Whether the connection has a slot now; it must be released before it is closed."""
        with self._lock:
            of_source = self._count()
            full = of_source.get(connection.source, 0) >= self._each
            if full or len(self._open) >= self._total:
                waiting = [
                    other
                    for other in self._open
                    if other.waiting and (not full or other.source == connection.source)
                ]
                if not waiting:
                    return False
                slowest = max(waiting, key=lambda other: of_source[other.source])
                del self._open[slowest]
                slowest.drop()
            self._open[connection] = None
            return True

    def release(self, connection: Connection) -> None:
        """Give the slot back; one that was taken away is none any more."""
        with self._lock:
            self._open.pop(connection, None)

    def _count(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for connection in self._open:
            counts[connection.source] = counts.get(connection.source, 0) + 1
        return counts


def source(address: str) -> str:
    """Whom an address belongs to: itself, and of IPv6 the network of 64 bits, as a host has as
    many as it likes.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or ip_network((int(ip), 64), strict=False))
    return str(ip)


def loopback(address: str) -> bool:
    """Whether a client's address is this machine's own, also where IPv4 is told as IPv6."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        return ip.ipv4_mapped.is_loopback
    return ip.is_loopback

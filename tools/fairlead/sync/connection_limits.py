"""Limits what a client of the sidecar's server can use: time, bytes, and connections by kind of
client and by address.

The standard library limits only the time of each read and the number of header lines. A client that
sends a byte now and then would keep its connection for ever, and a hundred long headers have
megabytes.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections import Counter
from ipaddress import IPv6Address, ip_address, ip_network
from threading import Lock
from typing import Any

PATIENCE = 5.0
"""Seconds for a whole request (handshake, headers and body), and as many again for the answer."""

HEAD = 16 * 1024
"""The most bytes of a request line with its headers."""


class Connection(ssl.SSLSocket):
    """A TLS connection with one deadline for all its reads and writes, and a limit of bytes to
    read.

    The SSL context creates them (`SSLContext.sslsocket_class`). Reads and writes raise TimeoutError
    after the deadline. Reads beyond `allowance` raise ConnectionAbortedError.
    """

    source = ""
    """The client; see the function `source`."""

    waiting = True
    """Whether the client has not sent its whole request yet."""

    deadline = 0.0
    allowance = 0

    def accept_from(self, address: str) -> None:
        """Start the time of the request. Only its head may be read for now."""
        self.source, self.allowance = source(address), HEAD
        self.deadline = time.monotonic() + PATIENCE

    def answering(self) -> None:
        """Start the time of the answer, once the whole request has been read."""
        self.waiting = False
        self.deadline = time.monotonic() + PATIENCE

    def drop(self) -> None:
        """Make a pending read or write fail; callable from any thread."""
        with contextlib.suppress(OSError):
            # SSLSocket.shutdown would drop the session that another thread reads from.
            socket.socket.shutdown(self, socket.SHUT_RDWR)

    def do_handshake(self, block: bool = False) -> None:
        self._limit()
        super().do_handshake(block)

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        self._limit()
        count = super().recv_into(buffer, nbytes, flags)
        self.allowance -= count
        if self.allowance < 0:
            raise ConnectionAbortedError("the client sent more than is allowed")
        return count

    def send(self, data: Any, flags: int = 0) -> int:
        self._limit()
        return super().send(data, flags)

    def _limit(self) -> None:
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the client is slower than is allowed")
        self.settimeout(remaining)


class Slots:
    """Admits at most `total` connections at a time, and at most `each` of one source. Safe for
    threads.

    If no slot is left, a connection that still waits for its client's request is dropped: one of
    the same source if that source has all its slots, otherwise one of the source with the most
    connections, the oldest first. So a slow client delays only itself, and a client that sends its
    request at once is served.
    """

    def __init__(self, total: int, per_source: int) -> None:
        self._total, self._each = total, per_source
        self._lock = Lock()
        self._open: dict[Connection, None] = {}  # oldest first

    def admit(self, connection: Connection) -> bool:
        """Give the connection a slot if possible; returns whether it has one. Release the slot
        before the connection is closed.
        """
        with self._lock:
            of_source = Counter(candidate.source for candidate in self._open)
            full = of_source[connection.source] >= self._each
            if full or len(self._open) >= self._total:
                waiting = [
                    candidate
                    for candidate in self._open
                    if candidate.waiting and (not full or candidate.source == connection.source)
                ]
                if not waiting:
                    return False
                slowest = max(waiting, key=lambda waiter: of_source[waiter.source])
                del self._open[slowest]
                slowest.drop()
            self._open[connection] = None
            return True

    def release(self, connection: Connection) -> None:
        """Free the slot of the connection, unless another connection has taken it already."""
        with self._lock:
            self._open.pop(connection, None)


def largest(used: Counter[str], own: str) -> str:
    """The source that has used the most; `own`, if no other one has used more. It is the one to
    give something up, so that no source keeps another from a part of its own.
    """
    return max(used, key=lambda source: (used[source], source == own))


def source(address: str) -> str:
    """The client that an address stands for: the address itself, or its /64 network for IPv6,
    because an IPv6 host can use any address of its network.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or ip_network((int(ip), 64), strict=False))
    return str(ip)


def loopback(address: str) -> bool:
    """Whether a client's address is a loopback address, also one of IPv4 mapped to IPv6."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        return ip.ipv4_mapped.is_loopback
    return ip.is_loopback

"""Reserves loopback ports for servers that are about to start."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from fairlead.common import locks, paths
from fairlead.common.errors import FairleadError

HOST = "127.0.0.1"
_LOWEST, _HIGHEST = 20000, 60999
# The range of Linux, and for other systems that of RFC 6335 (section 6).
_EPHEMERAL_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL = (49152, 65535)
_KEPT = 120.0  # seconds in which a process has to listen on a port that it was given


def free_ports(count: int) -> list[int]:
    """`count` different ports that nothing listens on, and that no other process of this user is
    given for two minutes.

    None is in the range of the kernel's ports for outgoing connections: such a connection could
    take one before the server does. Raises FairleadError if there are not that many.
    """
    first, last = _ephemeral()
    candidates = [port for port in range(_LOWEST, _HIGHEST + 1) if not first <= port <= last]
    if len(candidates) < count:
        # Everything above 1024 is ephemeral here: a port that a connection may take is better than
        # none.
        candidates = list(range(_LOWEST, _HIGHEST + 1))
    # Shuffled, so that ports rarely clash if the file of given ones cannot be written.
    random.shuffle(candidates)
    with _given() as recent, contextlib.ExitStack() as stack:
        ports: list[int] = []
        for port in candidates:
            if len(ports) == count:
                break
            if str(port) in recent:
                continue
            holder = stack.enter_context(socket.socket(socket.AF_INET))
            try:
                holder.bind((HOST, port))
            except OSError:
                continue
            ports.append(port)
        recent |= {str(port): time.time() + _KEPT for port in ports}
    if len(ports) < count:
        raise FairleadError(
            f"only {len(ports)} of {count} ports are free on {HOST}: stop some servers and try "
            "again"
        )
    return ports


@contextlib.contextmanager
def _given() -> Iterator[dict[str, float]]:
    """The ports that were given out recently, each with the time (time.time) at which it is
    free again. What the caller adds is saved.
    """
    recent: dict[str, float] = {}
    file = paths.cache() / "ports.json"
    with contextlib.ExitStack() as lock:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            lock.enter_context(locks.exclusive(file, create=file.touch))
        except OSError:  # servers can start even if the cache cannot be written
            yield recent
            return
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            recent |= {
                port: end
                for port, end in json.loads(file.read_text(encoding="ascii")).items()
                if 0 < end - time.time() <= _KEPT
            }
        yield recent
        file.write_text(json.dumps(recent), encoding="ascii")


def _ephemeral() -> tuple[int, int]:
    try:
        first, last = _EPHEMERAL_FILE.read_text(encoding="ascii").split()
        return int(first), int(last)
    except (OSError, ValueError):
        return _EPHEMERAL

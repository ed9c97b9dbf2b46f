"""Loopback ports for servers that are about to start."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

from fairlead.errors import FairleadError

HOST = "127.0.0.1"
_LOWEST, _HIGHEST = 20000, 60999
# Linux, and what RFC 6335 (section 6) sets aside for other systems.
_EPHEMERAL_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL = (49152, 65535)


def free_ports(count: int) -> list[int]:
    """`count` different ports that nothing listens on, checked while all are held.

    None is in the range from which the kernel takes the ports of outgoing connections: one of those could have it
    before the server does. Raises FairleadError where there are not as many.
    """
    first, last = _ephemeral()
    candidates = [port for port in range(_LOWEST, _HIGHEST + 1) if not first <= port <= last]
    if len(candidates) < count:
        # Everything above 1024 is ephemeral here: better a port that may be lost to a connection than none.
        candidates = list(range(_LOWEST, _HIGHEST + 1))
    random.shuffle(candidates)  # clusters that start at the same moment take different ones
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for port in candidates:
            if len(ports) == count:
                break
            holder = held.enter_context(socket.socket(socket.AF_INET))
            try:
                holder.bind((HOST, port))
            except OSError:
                continue
            ports.append(port)
    if len(ports) < count:
        raise FairleadError(f"only {len(ports)} of {count} ports are free on {HOST}: stop some servers and try again")
    return ports


def _ephemeral() -> tuple[int, int]:
    try:
        first, last = _EPHEMERAL_FILE.read_text(encoding="ascii").split()
        return int(first), int(last)
    except (OSError, ValueError):
        return _EPHEMERAL

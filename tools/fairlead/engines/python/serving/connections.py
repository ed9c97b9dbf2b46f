"""How servers of admission webhooks listen: with TLS and replaced certificates, and with limits for
clients that send nothing, or too much.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairlead.common.errors import FairleadError
from fairlead.opa.containers import DRAIN
from fairlead.sync import connection_limits
from fairlead.sync.server_certificates import Certificate

HEAD = 16 * 1024
"""The most bytes of a request line with its headers."""
GRACE = 10
"""Seconds for the answers to requests that have arrived when a server is told to end."""
PATIENCE = 5.0
"""Seconds for a handshake, and for a request line with its headers."""


def configured(
    application: Any,
    certificate: Path,
    key: Path,
    *,
    connections: int,
    log_level: str,
    **options: Any,
) -> uvicorn.Config:
    """How uvicorn serves the ASGI `application` with this certificate. It has fewer `connections`
    than that: another one takes the place of an idle one of the address with the most.
    """
    return uvicorn.Config(
        application,
        lifespan="on",
        loop=f"{__name__}:PatientLoop",
        http=_LimitedHttp,
        ws="none",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_config=_logging(log_level),
        limit_concurrency=connections,
        h11_max_incomplete_event_size=HEAD,
        timeout_keep_alive=DRAIN,
        timeout_graceful_shutdown=GRACE,
        ssl_context_factory=_Tls(certificate, key),
        **options,
    )


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at the address. Its connections send each part of an answer at once:
    asyncio does not see to that for a socket that it gets from elsewhere, and an API server would
    wait 40 ms for the rest of an answer. Raises FairleadError.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise FairleadError(
            f"cannot listen on {host}:{port}: {error.strerror}: choose another with --listen"
        ) from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.set_inheritable(True)
    return listener


@dataclass(frozen=True)
class _Tls:
    """Makes the TLS context of a worker, which serves replaced certificates at once."""

    certificate: Path
    key: Path

    def __call__(self, config: uvicorn.Config, default: Callable[[], Any]) -> ssl.SSLContext:
        current = Certificate(self.certificate, self.key)

        def use_current(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
            connection.context = current.context()

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.load_cert_chain(self.certificate, self.key)
        context.sni_callback = use_current
        return context


class PatientLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers give up on clients that do not finish the handshake of TLS. By
    default, it has a minute.
    """

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        """As that of asyncio."""
        return await super().create_server(*args, ssl_handshake_timeout=PATIENCE, **kwargs)


class _LimitedHttp(H11Protocol):
    """Closes a connection whose client does not send the head of a request in time: uvicorn itself
    limits only the time between requests. Of too many connections, the address with the most loses
    its oldest one without a request, so that no address keeps another from its first one, and idle
    connections nobody from an answer; uvicorn itself would refuse whoever comes last.
    """

    _end: asyncio.TimerHandle | None = None
    source = ""
    """The client; see connection_limits.source."""
    opened = 0.0
    """When it was opened, by the clock of the loop."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.source = connection_limits.source(self.client[0]) if self.client else ""
        self.opened = self.loop.time()
        most = self.config.limit_concurrency
        if most is not None and len(self.connections) >= most:
            self._make_room()
        self._await_head()

    def _make_room(self) -> None:
        connections = cast("set[_LimitedHttp]", self.connections)
        used = Counter(connection.source for connection in connections)
        largest = connection_limits.largest(used, self.source)
        others = [each for each in connections if each.source == largest and each is not self]
        idle = [each for each in others if each.cycle is None or each.cycle.response_complete]
        busy = [self] if largest == self.source else others
        victim = min(idle or busy, key=attrgetter("opened"))
        self.connections.discard(victim)
        victim.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._await_head()
        else:
            self._head_arrived()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_arrived()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._end is None:
            self._end = self.loop.call_later(PATIENCE, self.transport.abort)

    def _head_arrived(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None


def _logging(level: str) -> dict[str, Any]:
    """Plain lines on stderr, as the other components write them."""
    ours = {"level": level.upper()}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
        "root": {"level": "WARNING", "handlers": ["stderr"]},
        "loggers": {"fairlead": ours, "uvicorn.error": ours},
    }

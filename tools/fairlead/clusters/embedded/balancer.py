"""A load balancer for several OPAs, like a Service: each connection goes to the next OPA that is
Ready.

Run as `python -m fairlead.clusters.embedded.balancer HOST:PORT NAME=HOST:PORT=CA...`, where CA is
the file of the CA that an OPA is verified by. Bytes are forwarded unchanged: TLS ends at OPA, and
the client verifies OPA.

The balancer checks whether an OPA is Ready as the kubelet does, over TLS and with a new connection
each time. An OPA that is not Ready gets no new connections. The connections that it has stay, as
behind a Service: fairlead-opa itself asks its clients to connect again. Standard library only: the
balancer runs as long as the cluster.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairlead.common import texts

PERIOD = 0.2
"""Seconds between two checks of an OPA that is Ready."""
SOON = 0.05
"""Seconds between two checks of an OPA that is not."""
PATIENCE = 3.0
"""Seconds for an answer: more than the kubelet's, because all servers share one machine."""
LATE = 2
"""The number of late answers in a row after which an OPA is not Ready. Any answer but 200
counts at once."""
_CHUNK = 65536
_READY = b"GET /health/ready HTTP/1.1\r\nHost: opa\r\nConnection: close\r\n\r\n"


@dataclass(eq=False)
class Backend:
    """One OPA."""

    name: str
    host: str
    port: int
    ca: Path
    ready: bool = False
    _context: ssl.SSLContext | None = None
    _loaded: bytes = b""
    _late: int = 0

    @classmethod
    def parse(cls, text: str) -> Backend:
        """Parses NAME=HOST:PORT=CA. Raises ValueError."""
        name, address, ca = text.split("=", 2)
        host, port = address.rsplit(":", 1)
        return cls(name, host, int(port), Path(ca))

    async def watch(self) -> None:
        """Keep `ready` up to date, forever."""
        while True:
            await self.look()
            await asyncio.sleep(PERIOD if self.ready else SOON)

    async def look(self) -> None:
        """Check OPA once, and set `ready`."""
        reason = await self.unready()
        if self.ready != (reason is None):
            self.ready = reason is None
            _tell(f"{self.name} is {'Ready' if self.ready else f'not Ready: {reason}'}")

    async def unready(self) -> str | None:
        """Why OPA is not Ready; None if it is, or if its answer is late for the first time."""
        try:
            async with asyncio.timeout(PATIENCE):
                status = await self._ask()
        except TimeoutError:
            self._late += 1
            return None if self.ready and self._late < LATE else f"no answer within {PATIENCE:g} s"
        except (OSError, ValueError) as error:
            return str(error)
        self._late = 0
        return (
            None
            if status == b"200"
            else f"it answers {status.decode(errors='replace') or 'nothing'}"
        )

    async def _ask(self) -> bytes:
        """The HTTP status of OPA's answer. Raises OSError, and ValueError for a CA file
        without a certificate.
        """
        context = self._trust()
        reader, writer = await asyncio.open_connection(
            self.host, self.port, ssl=context, server_hostname=self.host
        )
        try:
            writer.write(_READY)
            line = await reader.readline()
        finally:
            writer.transport.abort()
        return line.split(b" ", 2)[1] if line.count(b" ") else b""

    def _trust(self) -> ssl.SSLContext:
        """The TLS context that verifies OPA by its CA file, which may be replaced at any time."""
        pem = self.ca.read_bytes()
        if self._context is None or pem != self._loaded:
            self._context, self._loaded = ssl.create_default_context(cadata=pem.decode()), pem
        return self._context


class Balancer:
    """Distributes connections over `backends` in turn."""

    def __init__(self, backends: list[Backend]) -> None:
        self._backends = backends
        self._turn = 0

    async def serve(self, host: str, port: int) -> None:
        """Listen at `host`:`port` until cancelled. Raises OSError if the address is not
        available.
        """
        server = await asyncio.start_server(self._forward, host, port, limit=_CHUNK, backlog=1024)
        async with server, asyncio.TaskGroup() as tasks:
            for backend in self._backends:
                tasks.create_task(backend.watch())
            await server.serve_forever()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        try:
            async for backend in self._candidates():
                try:
                    inner = await asyncio.open_connection(backend.host, backend.port, limit=_CHUNK)
                except OSError:  # it has just ended, which the next check will notice
                    continue
                await _both((reader, writer), inner)
                break
        finally:
            writer.transport.abort()

    async def _candidates(self) -> AsyncIterator[Backend]:
        """The backends that are Ready, beginning with the next in turn; then those that
        become Ready by a new check.
        """
        self._turn += 1
        ready = [backend for backend in self._backends if backend.ready]
        for number in range(len(ready)):
            yield ready[(self._turn + number) % len(ready)]
        unready = [backend for backend in self._backends if backend not in ready]
        await asyncio.gather(*(backend.look() for backend in unready))
        for backend in unready:
            if backend.ready:
                yield backend


_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _both(outer: _Streams, inner: _Streams) -> None:
    """Forward in both directions until both ends have closed, or either breaks."""
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_pump(outer[0], inner[1]))
            tasks.create_task(_pump(inner[0], outer[1]))
    finally:
        inner[1].transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward one direction until its end, and pass the end on."""
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
        return
    writer.transport.abort()


def _tell(text: str) -> None:
    print(texts.now(), text, file=sys.stderr, flush=True)  # noqa: T201 - a server's log


def main() -> None:
    """Serve at the address in the first argument, for the OPAs in the others."""
    host, port = sys.argv[1].rsplit(":", 1)
    balancer = Balancer([Backend.parse(text) for text in sys.argv[2:]])
    with suppress(KeyboardInterrupt):
        asyncio.run(balancer.serve(host, int(port)))


if __name__ == "__main__":
    main()

"""A member cluster behind a connection that a test can cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import yaml

from fairlead.federation.members import Member


class Forwarder:
    """Forwards connections on loopback to one address, until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._accept, "127.0.0.1", 0), self._loop
        ).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Close all connections, and accept no more."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        self._writers |= {writer, back}
        await asyncio.gather(_pass(reader, back), _pass(there, writer))

    async def _close(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def forwarded(member: Member) -> Iterator[tuple[Member, Forwarder]]:
    """The member behind a forwarder."""
    document = yaml.safe_load(member.kubeconfig)
    cluster = document["clusters"][0]["cluster"]
    address = urlsplit(cluster["server"])
    assert address.hostname
    assert address.port
    forwarder = Forwarder(address.hostname, address.port)
    cluster["server"] = f"https://{address.hostname}:{forwarder.port}"
    try:
        yield Member(member.name, yaml.safe_dump(document)), forwarder
    finally:
        forwarder.cut()

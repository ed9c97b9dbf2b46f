"""Reads the bodies of requests as reviews, within limits of size, time and memory."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from fairlead.common import json_numbers
from fairlead.opa.containers import LARGEST_REVIEW
from fairlead.sync import connection_limits

PATIENCE = 5.0
"""Seconds for a whole body."""
IN_HAND = 32 * 2**20
"""Bytes of the reviews that a worker receives at once. Two workers share 768 MiB."""
VALUES = 80 * 2**20
"""Bytes of the values that it decides on at once: one of the largest reviews."""
_OF_VALUE = 24
"""Bytes in Python for a byte of JSON: the empty maps of `[{},{},...]` take as many."""
_TOO_MANY = "too many reviews of this address are on their way"


class UnreadableError(Exception):
    """The body holds no review; the message says why, `status` is that of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Budget:
    """The reviews that a worker has in hand, for one event loop. If what is being received would
    take more bytes than `size`, the address with the most gives up its oldest review. So no address
    keeps another from a review of its own. Then reviews wait for the room that their values take.
    """

    def __init__(self, size: int = IN_HAND, values: int = VALUES) -> None:
        self._size, self._values = size, values
        self._receiving: dict[_Review, None] = {}  # oldest first
        self._decided = 0
        self._room = asyncio.Condition()

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[Any]:
        """The JSON value of the body, which is in hand during the block. Raises UnreadableError."""
        client = request.client.host if request.client else ""
        review = _Review(connection_limits.source(client))
        self._receiving[review] = None
        try:
            body = await _receive(request, review, self._make_room)
            needed = min(len(body) * _OF_VALUE, self._values)
            await self._wait_for(needed)
        finally:
            del self._receiving[review]
        try:
            value = parse(body)
            del body
            yield value
        finally:
            self._decided -= needed
            async with self._room:
                self._room.notify_all()

    def _make_room(self, review: _Review) -> None:
        """Have others give up if this review does not fit. Raises UnreadableError if it has to."""
        while sum(each.size for each in self._receiving) > self._size:
            used = Counter[str]()
            for each in self._receiving:
                used[each.source] += each.size
            largest = connection_limits.largest(used, review.source)
            if largest == review.source:
                raise UnreadableError(503, _TOO_MANY)
            next(each for each in self._receiving if each.source == largest and each.size).give_up()

    async def _wait_for(self, needed: int) -> None:
        """Take so many bytes for the value of a review. Raises UnreadableError."""
        try:
            async with asyncio.timeout(PATIENCE), self._room:
                await self._room.wait_for(lambda: self._decided + needed <= self._values)
        except TimeoutError as error:
            raise UnreadableError(503, _TOO_MANY) from error
        self._decided += needed


@dataclass(eq=False)
class _Review:
    """A review that is received, with the bytes that it has, and its deadline."""

    source: str
    size: int = 0
    end: asyncio.Timeout | None = None
    given_up: bool = False

    def give_up(self) -> None:
        """Have its reader stop at once, unless it has everything already."""
        self.size, self.given_up = 0, True
        if self.end is not None:
            self.end.reschedule(0)


async def _receive(
    request: Request, review: _Review, make_room: Callable[[_Review], None]
) -> bytes:
    """The whole body; `make_room` is called after each part. Raises UnreadableError."""
    if (coding := request.headers.get("content-encoding", "identity")) != "identity":
        # API servers do not compress reviews, and 3 KB of gzip unpack to 3 MB.
        raise UnreadableError(415, f"Content-Encoding {coding!r}: send the review as it is")
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE) as review.end:
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_REVIEW:
                    raise UnreadableError(413, f"the review has more than {LARGEST_REVIEW} bytes")
                review.size = len(body)
                make_room(review)
    except TimeoutError as error:
        if review.given_up:
            raise UnreadableError(503, _TOO_MANY) from error
        raise UnreadableError(408, f"the review did not arrive in {PATIENCE:g} seconds") from error
    except ClientDisconnect as error:
        raise UnreadableError(400, "the client closed the connection") from error
    finally:
        review.end = None
    return bytes(body)


def parse(body: bytes) -> Any:
    """The value of a JSON text. Raises UnreadableError."""
    try:
        return json.loads(
            body,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_integer,
        )
    except RecursionError as error:
        raise UnreadableError(400, "the review is nested too deeply") from error
    except ValueError as error:
        raise UnreadableError(400, f"the review is not JSON: {error}") from error


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _finite(text: str) -> int | float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large")
    return json_numbers.number(text)


def _integer(text: str) -> int | float:
    """Longer integers are rounded, as in Kubernetes, and to read them would take long."""
    return int(text) if len(text) <= 20 else _finite(text)

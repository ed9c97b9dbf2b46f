"""Reads the body of a request as a review, within limits of size and time."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from fairlead.common import json_numbers
from fairlead.opa.containers import LARGEST_REVIEW

PATIENCE = 5.0
"""Seconds for a whole body."""


class UnreadableError(Exception):
    """The body holds no review; the message says why, `status` is that of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def read(request: Request) -> Any:
    """The JSON value of the body. Raises UnreadableError."""
    return parse(await receive(request))


async def receive(request: Request) -> bytes:
    """The whole body. Raises UnreadableError."""
    if (coding := request.headers.get("content-encoding", "identity")) != "identity":
        # API servers do not compress reviews, and 3 KB of gzip unpack to 3 MB.
        raise UnreadableError(415, f"Content-Encoding {coding!r}: send the review as it is")
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_REVIEW:
                    raise UnreadableError(413, f"the review has more than {LARGEST_REVIEW} bytes")
    except TimeoutError as error:
        raise UnreadableError(408, f"the review did not arrive in {PATIENCE:g} seconds") from error
    except ClientDisconnect as error:
        raise UnreadableError(400, "the client closed the connection") from error
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

"""The errors of requests to an API server, worded alike for every client.

This module imports no client library, because the embedded cluster's own client does without one.
"""

from __future__ import annotations

import json

from fairlead.common.errors import FairleadError

_NO_SUCH_PATH = "404 page not found"
"""What API servers answer if they have no such path, in place of a Status."""
_NOT_SERVED = "it does not serve this kind of object"


class ApiServerError(FairleadError):
    """A request to an API server failed.

    `status` is the HTTP status, 0 without an answer. `message` is what the API server said, empty
    if it said nothing.
    """

    def __init__(self, text: str, status: int = 0, *, message: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.message = message

    @property
    def gone(self) -> bool:
        """Whether the requested resourceVersion is too old, so that only a new list helps."""
        return self.status == 410


class TooLarge(ApiServerError):
    """An answer has more bytes than its reader takes."""


class Unreachable(ApiServerError):
    """The API server gave no answer."""

    def __init__(self, action: str, cause: object) -> None:
        """`action` says what was attempted."""
        super().__init__(
            f"{action}: the API server cannot be reached ({cause}): is the cluster up?"
        )


class Refused(ApiServerError):
    """The API server answered with an HTTP status that is an error."""

    def __init__(
        self, action: str, status: int, body: str | bytes | None, fallback: str = ""
    ) -> None:
        """`action` says what was attempted; `body` is the answer, a Status (meta/v1) or any text;
        `fallback` is the message of an empty answer.
        """
        message = _message(body) or fallback or "it gives no reason"
        super().__init__(
            f"{action}: the API server says {status}: {message}", status, message=message
        )


class NotServed(Refused):
    """The API server does not have the kind of an object."""

    def __init__(self, action: str) -> None:
        """`action` says what was attempted."""
        super().__init__(action, 404, _NO_SUCH_PATH)


def _message(body: str | bytes | None) -> str:
    """The message of a Status; of other text, its beginning."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        beginning = text[:500].strip()
        return _NOT_SERVED if beginning == _NO_SUCH_PATH else beginning

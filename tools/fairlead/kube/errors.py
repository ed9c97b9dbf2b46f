"""The errors of requests to an API server, worded alike for every client.

This module imports no client library, because the embedded cluster's own client does without one.
"""

from __future__ import annotations

import json

from fairlead.common.errors import FairleadError


class ApiServerError(FairleadError):
    """A request to an API server failed.

    `status` is the HTTP status, 0 without an answer. `reason` is Kubernetes' own word for it, such
    as AlreadyExists, and `message` is what the API server said; both are empty if it said nothing.
    """

    def __init__(self, text: str, status: int = 0, *, reason: str = "", message: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def gone(self) -> bool:
        """Whether the requested resourceVersion is too old, so that only a new list helps."""
        return self.status == 410


class Unreachable(ApiServerError):
    """The API server gave no answer."""

    def __init__(self, what: str, cause: object) -> None:
        """`what` says what was attempted."""
        super().__init__(f"{what}: the API server cannot be reached ({cause}): is the cluster up?")


class Refused(ApiServerError):
    """The API server answered with an HTTP status that is an error."""

    def __init__(
        self, what: str, status: int, body: str | bytes | None, fallback: str = ""
    ) -> None:
        """`what` says what was attempted; `body` is the answer, a Status (meta/v1) or any text;
        `fallback` is the message of an empty answer.
        """
        reason, message = _status(body)
        message = message or fallback or "it gives no reason"
        super().__init__(
            f"{what}: the API server says {status}: {message}",
            status,
            reason=reason,
            message=message,
        )


def _status(body: str | bytes | None) -> tuple[str, str]:
    """The reason and the message of a Status; for other text, its beginning as the message."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    try:
        status = json.loads(text)
        return str(status.get("reason") or ""), str(status["message"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "", text[:500].strip()

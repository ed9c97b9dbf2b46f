"""The errors of requests to OPA, and the wording of OPA's own error objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.common.errors import FairleadError, UsageError


class OpaUnavailable(FairleadError):
    """OPA gives no usable answer: connection refused, timeout, untrusted certificate, 5xx, or
    garbage.
    """


class OpaRefused(FairleadError):
    """OPA does not accept the token (401, 403)."""


class Rejected(FairleadError):
    """OPA understood the request and declined it; what it served before stays in force.

    `error` is OPA's own object, {"code", "message", "errors": [{"code", "message", "location":
    {"file", "row", "col"}}]}; "errors" may be missing.
    """

    def __init__(self, subject: str, error: dict[str, Any]) -> None:
        super().__init__(f"{subject}: {describe(error)}")
        self.error = error


class PolicyRejected(Rejected):
    """OPA does not accept a policy, or the removal of one that others need."""


class DocumentRejected(Rejected):
    """OPA does not accept a document, for instance because a policy defines the same path."""


class BrokenPolicies(UsageError):
    """Files of policies that OPA cannot read, compile or evaluate. The message has a line for each
    mistake, with its file and line.
    """


def describe(error: Any) -> str:
    """One line for each error in OPA's error object, as `opa check` prints it: file and row, code,
    message. The code of a Status, by which the plugin refuses a review, is a number and left out.
    """
    if isinstance(error, list):
        return "\n".join(describe(part) for part in error)
    if not isinstance(error, Mapping):
        return str(error)
    details = error.get("errors")
    if details and isinstance(details, list):
        return describe(details)
    match error.get("location"):
        case {"file": file, "row": row}:
            location = f"{file}:{row}"
        case _:
            location = ""
    code = error.get("code")
    message = str(error.get("message") or "no reason given")
    return ": ".join(filter(None, (location, code if isinstance(code, str) else "", message)))

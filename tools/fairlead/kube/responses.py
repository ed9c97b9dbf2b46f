"""The answers of an API server, with what typed clients hide: warnings, and who refused."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Self

import urllib3

# RFC 7234, section 5.5; the API server uses the code 299 and escapes quotes.
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
DENIAL = re.compile(
    r"^admission webhook .*?denied the request: "
    r"|^.*?ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request: ",
    re.DOTALL,
)
"""What an API server writes before the words of a webhook or of a ValidatingAdmissionPolicy."""


@dataclass(frozen=True)
class Response:
    """An API server's answer: its status code, its JSON body (empty if it has none), and its
    warnings.
    """

    status: int
    body: dict[str, Any]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, answer: urllib3.BaseHTTPResponse) -> Self:
        """Reads the body. Raises OSError, urllib3.exceptions.HTTPError."""
        data = answer.data
        try:
            body = json.loads(data)
        except ValueError:
            body = {"message": data.decode(errors="replace")}
        warnings = _WARNING.findall(", ".join(answer.headers.getlist("Warning")))
        unescaped = tuple(re.sub(r"\\(.)", r"\1", warning) for warning in warnings)
        return cls(answer.status, body if isinstance(body, dict) else {}, unescaped)

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return self.status < 400

    @property
    def message(self) -> str:
        """Why the request failed, empty if it did not. For a denial of a webhook or an admission
        policy, only what that said.
        """
        if self.ok:
            return ""
        message = str(self.body.get("message") or f"the API server answers {self.status}")
        return DENIAL.split(message, maxsplit=1)[1] if self.denied else message

    @property
    def denied(self) -> bool:
        """Whether an admission webhook, the failure policy of one, or an admission policy refused
        the request.
        """
        return not self.ok and DENIAL.search(str(self.body.get("message"))) is not None

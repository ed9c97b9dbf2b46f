"""HTTP requests to servers that may answer anything: an answer is limited in size and time, and no
redirect is followed, as it could turn a PUT into a GET or lead to a host without TLS."""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3

from fairlead.common import cached_urls
from fairlead.common.errors import InputError, UsageError

_TIMEOUT = (5.0, 60.0)  # seconds, to connect and for each read
_LONGEST = 120.0
"""Seconds for the body of an answer."""
_LARGEST = 1024 * 1024
"""Bytes of the body of an answer, unless a request expects more."""


class AwayError(UsageError):
    """The server does not answer as it should; nothing was changed."""


@dataclass(frozen=True)
class Answer:
    """An answer with any status. `headers` ignore the case of names."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the request went well; a redirect is no success."""
        return 200 <= self.status < 300

    @property
    def document(self) -> Any:
        """The JSON document in the body; None if there is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


def exchange(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    ca: Path | None = None,
    most: int = _LARGEST,
) -> Answer:
    """The answer to a request. Raises InputError for a missing CA, and AwayError if there is no
    answer, or one with more than `most` bytes.
    """
    if ca and not ca.is_file():
        raise InputError(ca, "is no file: name the CA that issued the server's certificate")
    shown = cached_urls.shown(url)
    try:
        with requests.request(
            method,
            url,
            data=body,
            headers={"Accept-Encoding": "identity", **(headers or {})},
            auth=_without_netrc,
            verify=str(ca) if ca else True,
            timeout=_TIMEOUT,
            allow_redirects=False,
            stream=True,
        ) as answer:
            content = _content(answer, most, shown)
            return Answer(answer.status_code, answer.reason, answer.headers, content)
    except requests.exceptions.SSLError as error:
        raise AwayError(f"{shown}: {_of_tls(str(error))}") from error
    # Its text may hold the whole URL, or a header with a secret.
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise AwayError(
            f"{shown}: the server does not answer: start it, or correct the URL"
        ) from error


def require_private(url: str) -> None:
    """Raises UsageError if what is sent to the URL could be read on the network: without TLS, a
    token or a password goes to this machine only.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not _is_loopback(parts.hostname or ""):
        raise UsageError(
            f"--token-file: {cached_urls.shown(url)} has no TLS, so others could read the token: "
            "use https, or leave the token out"
        )


def origin(url: str) -> tuple[str, str, int]:
    """The scheme, the host and the port of a URL. Raises ValueError."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80}.get(parts.scheme, 443)


def _without_netrc(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """The request as it is: without an `auth`, requests would replace the header Authorization by
    what ~/.netrc has for the host.
    """
    return request


def _content(answer: requests.Response, most: int, shown: str) -> bytes:
    """The body as it was sent: one that is compressed nevertheless could unpack to any size."""
    end = time.monotonic() + _LONGEST
    content = bytearray()
    for chunk in answer.raw.stream(65536, decode_content=False):
        content += chunk
        if len(content) > most:
            raise AwayError(f"{shown}: answers with more than {most} bytes: correct the URL")
        if time.monotonic() > end:
            raise AwayError(f"{shown}: the answer takes longer than {_LONGEST:g} s: try again")
    return bytes(content)


def _of_tls(problem: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in problem:
        return "the certificate of the server cannot be verified: name its CA by --ca-file"
    return "the server speaks no TLS: correct the URL; --plain-http is for a registry without TLS"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""Puts bundles onto a server, and asks it for the state of the OPAs that follow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import requests

from fairlead.common import cached_urls
from fairlead.common.errors import FairleadError, InputError, UsageError
from fairlead.distribution import registry
from fairlead.distribution.archives import Archive
from fairlead.distribution.configuration import resource
from fairlead.distribution.signatures import PublicKey, verify

_TIMEOUT = (5.0, 60.0)  # seconds, to connect and for each read


class AwayError(UsageError):
    """The server does not answer as a server of bundles would; nothing was changed."""


def push(
    url: str,
    archive: Archive,
    packed: bytes,
    *,
    token: Path | None = None,
    ca: Path | None = None,
    plain: bool = False,
) -> str:
    """Put a signed bundle onto the server by PUT, or into a registry, and return the URL or the
    image that it has then; see registry.push for `plain`. Raises UsageError.
    """
    if archive.signed is None:
        raise UsageError("the bundle is not signed: run `fairlead bundle sign` first")
    if registry.is_registry(url):
        return registry.push(url, archive, packed, token=token, ca=ca, plain=plain)
    target = f"{url.rstrip('/')}/{resource(archive.name)}"
    _send("PUT", target, token, ca, packed)
    return target


def check(archive: Archive, packed: bytes, keys: list[PublicKey], scope: str, place: Path) -> None:
    """Verify a bundle as OPAs will. Raises InputError."""
    try:
        verify(archive, packed, keys, scope)
    except FairleadError as error:
        raise InputError(
            place, f"is not signed by the key for the scope {scope!r}: {error}"
        ) from error


def status(url: str, *, token: Path | None = None, ca: Path | None = None) -> dict[str, Any]:
    """What the server says of its bundles and of the OPAs (see followers.Followers.summary). Raises
    UsageError.
    """
    target = f"{url.rstrip('/')}/status"
    answer = _send("GET", target, token, ca)
    try:
        summary = answer.json()
        summary["bundles"], summary["opas"]
    except (ValueError, KeyError, TypeError) as error:
        raise AwayError(
            f"{cached_urls.shown(target)}: answers, but not as `fairlead bundle serve` does: "
            "correct the URL"
        ) from error
    return dict(summary)


def _send(
    method: str, url: str, token: Path | None, ca: Path | None, body: bytes | None = None
) -> requests.Response:
    """The answer to a request that went well. Raises UsageError."""
    headers = {"Authorization": f"Bearer {_token(token)}"} if token else {}
    if ca and not ca.is_file():
        raise InputError(ca, "is no file: name the CA that issued the server's certificate")
    shown = cached_urls.shown(url)
    try:
        with requests.Session() as session:
            session.trust_env = ca is None
            answer = session.request(
                method,
                url,
                data=body,
                headers=headers,
                verify=str(ca) if ca else True,
                timeout=_TIMEOUT,
            )
    except requests.exceptions.SSLError as error:
        raise AwayError(
            f"{shown}: the certificate of the server cannot be verified: name its CA by --ca-file"
        ) from error
    except (requests.RequestException, OSError) as error:
        raise AwayError(
            f"{shown}: the server does not answer: start it, or correct the URL"
        ) from error
    if answer.ok:
        return answer
    raise AwayError(f"{shown}: the server refuses it ({answer.status_code}): {_reason(answer)}")


def _token(file: Path) -> str:
    """The token in a file. Raises InputError."""
    try:
        token = file.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise InputError(file, "holds no token that can be read: name another file") from error
    if not token.isprintable() or " " in token or not token:
        raise InputError(file, "holds no token, which is one word: name another file")
    return token


def _reason(answer: requests.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return {
            401: "give the token by --token-file",
            403: "give a token that may do this by --token-file",
            404: "correct the URL",
        }.get(answer.status_code, answer.reason or "see the server's log")

"""Puts bundles onto a server, and asks it for the state of the OPAs that follow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, StrictInt

from fairlead.common import cached_urls, texts
from fairlead.common.errors import FairleadError, InputError, UsageError
from fairlead.distribution import exchanges, registry
from fairlead.distribution.archives import LARGEST, Archive
from fairlead.distribution.configuration import resource
from fairlead.distribution.exchanges import Answer, AwayError
from fairlead.distribution.signatures import PublicKey, verify

_LONGEST = 1000  # characters of what a server says


class _Served(BaseModel):
    """A bundle in a server's summary."""

    name: str
    signed: StrictInt | None
    expires: StrictInt | None
    opas: StrictInt
    onRevision: StrictInt  # noqa: N815
    failing: StrictInt


class _Follower(BaseModel):
    """An OPA in a server's summary; of its bundles, by name, the revision and the error."""

    id: str
    labels: dict[str, str]
    bundles: dict[str, dict[str, str | None]]


class _Summary(BaseModel):
    """What followers.Followers.summary gives."""

    bundles: list[_Served]
    opas: list[_Follower]


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
    summary = _send("GET", target, token, ca).document
    try:
        _Summary.model_validate(summary)
    except ValueError as error:
        raise AwayError(
            f"{cached_urls.shown(target)}: answers, but not as `fairlead bundle serve` does: "
            "correct the URL"
        ) from error
    return dict(summary)


def _send(
    method: str, url: str, token: Path | None, ca: Path | None, body: bytes | None = None
) -> Answer:
    """The answer to a request that went well. Raises UsageError."""
    headers = {}
    if token:
        exchanges.require_private(url)
        headers["Authorization"] = f"Bearer {_token(token)}"
    answer = exchanges.exchange(method, url, headers=headers, body=body, ca=ca, most=LARGEST)
    if answer.ok:
        return answer
    raise AwayError(
        f"{cached_urls.shown(url)}: the server refuses it ({answer.status}): {_reason(answer)}"
    )


def _token(file: Path) -> str:
    """The token in a file. Raises InputError."""
    try:
        token = file.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise InputError(file, "holds no token that can be read: name another file") from error
    if not token.isprintable() or " " in token or not token:
        raise InputError(file, "holds no token, which is one word: name another file")
    return token


def _reason(answer: Answer) -> str:
    """What the server says of a refusal, which could steer the terminal; else what to do."""
    try:
        return texts.printable(str(answer.document["error"]))[:_LONGEST]
    except (KeyError, TypeError):
        return {
            401: "give the token by --token-file",
            403: "give a token that may do this by --token-file",
            404: "correct the URL",
        }.get(answer.status, texts.printable(answer.reason) or "see the server's log")

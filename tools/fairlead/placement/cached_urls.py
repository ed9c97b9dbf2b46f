"""Reads texts by URL, and keeps the last good one of each in the user's cache, for when the server
is away or answers nonsense."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import requests

from fairlead.common import atomic_files, paths
from fairlead.common.errors import FairleadError, InputError

T = TypeVar("T")

LARGEST = 16 * 1024 * 1024
"""Bytes of an answer."""
_TIMEOUT = (5.0, 15.0)  # seconds, to connect and for each read
_LONGEST = 60.0  # seconds for a whole answer


@dataclass(frozen=True)
class _Kept:
    """A good answer: its ETag, empty without one, and its text."""

    etag: str
    text: str


def is_url(text: str) -> bool:
    """Whether it is an http or https URL, and no file."""
    return text.startswith(("http://", "https://"))


def shown(url: str) -> str:
    """The URL as messages name it: without a password and a query, which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def read(url: str, parse: Callable[[str], T]) -> tuple[T, str]:
    """What `parse` makes of the text at the URL, and no problem. If the text cannot be had now, or
    `parse` raises InputError for it: what it makes of the last good text, and a sentence that says
    why.

    With an ETag, only a new text is sent. Raises InputError if there is no earlier text.
    """
    file = _file(url)
    cached = _kept(file)
    try:
        answer = _asked(url, cached)
        value = parse(answer.text)
    except FairleadError as error:
        if cached is None:
            raise InputError(shown(url), f"{error}: correct the URL, or try again") from error
        return parse(cached.text), f"{shown(url)}: {error}. The last good answer counts"
    if answer != cached:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_files.write_private(file, json.dumps([answer.etag, answer.text]).encode())
    return value, ""


class _Failed(FairleadError):
    """There was no usable answer; the message says why."""


def _asked(url: str, cached: _Kept | None) -> _Kept:
    """The answer now, which is `cached` if nothing is new. Raises _Failed."""
    headers = {"If-None-Match": cached.etag} if cached and cached.etag else {}
    end = time.monotonic() + _LONGEST
    try:
        with requests.get(url, headers=headers, timeout=_TIMEOUT, stream=True) as answer:
            if url.startswith("https:") and not answer.url.startswith("https:"):
                raise _Failed("it leads to a URL without TLS")
            if answer.status_code == requests.codes.not_modified and cached:
                return cached
            if answer.status_code != requests.codes.ok:
                raise _Failed(f"the server says {answer.status_code} {answer.reason}")
            body = bytearray()
            for chunk in answer.iter_content(65536):
                body += chunk
                if len(body) > LARGEST:
                    raise _Failed(f"the answer has more than {LARGEST // 1024 // 1024} MiB")
                if time.monotonic() > end:
                    raise _Failed(f"the answer takes longer than {_LONGEST:g} s")
            return _Kept(answer.headers.get("ETag", ""), body.decode())
    except UnicodeDecodeError as error:
        raise _Failed("the answer is not UTF-8 text") from error
    except (requests.RequestException, OSError, ValueError) as error:
        # Its text may hold the whole URL.
        raise _Failed(f"there is no answer ({type(error).__name__})") from error


def _file(url: str) -> Path:
    return paths.cache() / "urls" / f"{hashlib.sha256(url.encode()).hexdigest()}.json"


def _kept(file: Path) -> _Kept | None:
    try:
        etag, text = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return None
    return _Kept(str(etag), str(text))

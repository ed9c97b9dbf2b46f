"""The plain spelling of a request's target, whichever way it is written."""

from __future__ import annotations

import re


def plain_spelling(target: str) -> str | None:
    """The target as a path with a query, without escapes, an authority and what Go's library cannot
    read of a query. None if it has no path. An escaped slash, or a broken escape, is a `%`.
    """
    address, _, query = _relative(target).partition("?")
    if not address.startswith("/"):
        return None
    segments = [_unescaped(segment) for segment in address[1:].split("/")]
    pairs = []
    for piece in filter(None, query.split("&")):
        key, _, value = (_unescaped(part.replace("+", " ")) for part in piece.partition("="))
        if ";" not in piece and key is not None and value is not None:
            pairs.append(f"{key}={value}")
    plain = "/" + "/".join(
        "%" if segment is None or "/" in segment else segment for segment in segments
    )
    return "?".join([plain, *(["&".join(pairs)] if pairs else [])])


def decoded_path(target: str) -> str:
    """The path of the target, percent-decoded; empty if an escape is broken."""
    return _unescaped(_relative(target).partition("?")[0]) or ""


def _relative(target: str) -> str:
    """The target without its scheme and authority, if it has them."""
    if absolute := re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/?]*)?(?=/|\?|$)", target):
        target = target[absolute.end() :]
        return target if target.startswith("/") else "/" + target
    return target


def _unescaped(text: str) -> str | None:
    """The percent-decoded text; None if an escape is broken."""
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return None
    return re.sub(r"%(..)", lambda match: chr(int(match[1], 16)), text)

"""Names of objects that others can tell apart, and that fit into a label."""

from __future__ import annotations

import hashlib
import re

LONGEST = 63
_DIGITS = 10
_LEGAL = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def unique(text: str, *parts: str) -> str:
    """The text with a digest of the parts, which tells it from the same text made of others."""
    digest = hashlib.sha256("/".join(parts).encode()).hexdigest()[:_DIGITS]
    legal = re.sub(r"[^-a-z0-9.]+", "-", text.lower())
    return f"{legal[: LONGEST - 1 - _DIGITS].strip('.-')}-{digest}"


def short(text: str) -> str:
    """The text, if it is such a name, or else its beginning with a digest of it: roles may have
    names such as `system:reader`.
    """
    is_name = len(text) <= LONGEST and _LEGAL.fullmatch(text)
    return text if is_name else unique(text, text)

"""Short digests, which distinguish secrets without showing them."""

from __future__ import annotations

import hashlib


def digest(data: bytes) -> str:
    """The first 12 hex digits of the SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()[:12]

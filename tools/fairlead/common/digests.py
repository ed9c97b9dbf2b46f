"""Short digests that tell two secrets apart and show neither of them."""

from __future__ import annotations

import hashlib


def digest(data: bytes) -> str:
    """The first 12 hex digits of the SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()[:12]

"""Texts as annotations of objects hold them: compressed by gzip, in base64. The same text always
becomes the same annotation.
"""

from __future__ import annotations

import gzip
from base64 import b64decode, b64encode


def pack(text: str) -> str:
    """The text as the value of an annotation."""
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def unpack(packed: str) -> str:
    """The text in the value of an annotation. Raises ValueError if somebody damaged it."""
    try:
        return gzip.decompress(b64decode(packed)).decode()
    except (OSError, EOFError) as error:
        raise ValueError(str(error)) from error

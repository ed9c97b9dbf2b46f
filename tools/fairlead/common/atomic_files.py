"""Replaces files in one step: a reader sees the old content or the new, never a part of either.

Standard library only, as the supervisor of an embedded cluster imports it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def write_private(path: Path, data: bytes) -> None:
    """Replace a file by one that only its owner can read (0600). Raises OSError.

    If several processes write at once, the last one wins.
    """
    _replace({path: data}, mode=0o600)


def write_all(contents: Mapping[Path, str | bytes]) -> None:
    """Replace each file, and make folders that are missing. Raises OSError.

    If one file cannot be written, none is replaced.
    """
    for path in contents:
        path.parent.mkdir(parents=True, exist_ok=True)
    encoded = {
        path: content.encode() if isinstance(content, str) else content
        for path, content in contents.items()
    }
    _replace(encoded, mode=0o666)


def _replace(contents: Mapping[Path, bytes], *, mode: int) -> None:
    """Write every file under a temporary name beside it, then rename them all."""
    temporary: dict[Path, Path] = {}
    try:
        for path, data in contents.items():
            # A random name, so that each writer has its own; cut, as a name has 255 bytes at most.
            name = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}")
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            temporary[path] = name
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
        for path, name in temporary.items():
            name.replace(path)
    except BaseException:
        for name in temporary.values():
            with suppress(OSError):
                name.unlink()
        raise

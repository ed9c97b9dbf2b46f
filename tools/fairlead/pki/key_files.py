"""Writes keys and certificates into files that only their owner can read."""

from __future__ import annotations

from pathlib import Path

from fairlead.common import atomic_files
from fairlead.pki.certificates import KeyPair


def write_pair(pair: KeyPair, folder: Path, name: str) -> tuple[Path, Path]:
    """Write `name`.crt and `name`.key into `folder`, and return both paths. Raises OSError."""
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    atomic_files.write_private(key, pair.key_pem)
    atomic_files.write_private(cert, pair.cert_pem)
    return cert, key

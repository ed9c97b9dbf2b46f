"""The bundles that a server gives out: files of a folder, which newer ones replace."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from fairlead.common import atomic_files
from fairlead.common.errors import FairleadError, UsageError
from fairlead.distribution import archives, signatures
from fairlead.distribution.archives import NAMES, Archive
from fairlead.distribution.signatures import PublicKey

_AHEAD = 300
"""Seconds by which the clock of a machine that signs may be ahead."""


@dataclass(frozen=True)
class Served:
    """A bundle as it is given out: its bytes, and what identifies them."""

    packed: bytes
    archive: Archive
    etag: str


class RefusedError(FairleadError):
    """A bundle is not taken; the message says why, `status` is that of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Store:
    """The bundles of a folder, `<name>.tar.gz`. Safe for threads."""

    def __init__(self, folder: Path, keys: Sequence[PublicKey], scope: str) -> None:
        """With `keys`, a new bundle has to be signed by one of them. Raises UsageError."""
        if not folder.is_dir():
            raise UsageError(f"{folder}: is no folder: create it first")
        self._folder, self._keys, self._scope = folder, keys, scope
        self._lock = Lock()
        self._read: dict[str, tuple[tuple[int, ...], Served | None]] = {}
        self.refresh()

    def get(self, name: str) -> Served | None:
        """The bundle with this name; None if there is none."""
        return self._read[name][1] if name in self._read else None

    def refresh(self) -> bool:
        """Read the files that have changed; whether one has. A file that is no bundle counts as
        none.
        """
        changed = False
        for name in NAMES:
            path = self._path(name)
            try:
                status = path.stat()
                state: tuple[int, ...] = (status.st_mtime_ns, status.st_size, status.st_ino)
            except OSError:
                state = ()
            if name in self._read and self._read[name][0] == state:
                continue
            served = self._load(path) if state else None
            changed |= name not in self._read or self._read[name][1] != served
            self._read[name] = state, served
        return changed

    def replace(self, name: str, packed: bytes) -> Archive:
        """Take a new bundle. Raises RefusedError."""
        archive = self._accepted(name, packed)
        with self._lock:
            current = self.get(name)
            last = current.archive.signed if current else None
            if current and current.packed == packed:  # a push that is tried again
                return archive
            if last is not None and (archive.signed or 0) <= last:
                raise RefusedError(
                    409,
                    f"was signed at {_time(archive.signed or 0)}, and the bundle that is served at "
                    f"{_time(last)}: sign it again, to go back to what it holds",
                )
            atomic_files.write_private(self._path(name), packed)
            self.refresh()
        return archive

    def _accepted(self, name: str, packed: bytes) -> Archive:
        """The bundle, if it may be served under this name. Raises RefusedError."""
        if name not in NAMES:
            raise RefusedError(404, f"no bundle is called {name!r}: {' or '.join(NAMES)}")
        try:
            archive = archives.unpacked(packed, "the bundle")
            if archive.name != name:
                raise FairleadError(f"it is called {archive.name!r}, and not {name!r}")
            if archive.signed is None:
                raise FairleadError("it is not signed: run `fairlead bundle sign`")
            if archive.signed > time.time() + _AHEAD:
                raise FairleadError(f"it was signed in the future, at {_time(archive.signed)}")
            if self._keys:
                signatures.verify(archive, packed, self._keys, self._scope)
        except FairleadError as error:
            raise RefusedError(400, str(error)) from error
        return archive

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.tar.gz"

    def _load(self, path: Path) -> Served | None:
        try:
            packed = path.read_bytes()
            archive = archives.unpacked(packed, path)
        except (OSError, FairleadError):
            return None
        return Served(packed, archive, f'"{hashlib.sha256(packed).hexdigest()[:32]}"')


def _time(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))

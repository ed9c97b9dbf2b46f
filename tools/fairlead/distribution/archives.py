"""Bundles of OPA as files: a gzipped tar of modules, data, a manifest and a signature."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from fairlead.common.errors import InputError

MANIFEST = ".manifest"
SIGNATURES = ".signatures.json"
LARGEST = 64 * 1024 * 1024
"""The most bytes of a bundle, packed, and of all its files."""
POLICIES = "policies"
DATA = "data"
NAMES = (POLICIES, DATA)
"""The names of bundles, in OPA's configuration and in the manifests' metadata."""


@dataclass(frozen=True)
class Archive:
    """A bundle: its files (path -> content) without the manifest, and the manifest."""

    files: Mapping[str, bytes]
    manifest: Mapping[str, Any]

    @property
    def name(self) -> str:
        """One of NAMES; empty if Fairlead did not build it."""
        return str(self._metadata.get("name", ""))

    @property
    def revision(self) -> str:
        """12 hex digits that identify the content, without its signature."""
        return str(self.manifest.get("revision", ""))

    @property
    def signed(self) -> int | None:
        """When it was signed, in seconds of Unix time; None if it is not."""
        signed = self._metadata.get("signed")
        return signed if isinstance(signed, int) and SIGNATURES in self.files else None

    @property
    def _metadata(self) -> Mapping[str, Any]:
        metadata = self.manifest.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    def with_metadata(self, **values: Any) -> Archive:
        """This bundle without its signature, and with these values in its manifest's metadata;
        values that are None are left out.
        """
        metadata = {key: value for key, value in {**self._metadata, **values}.items() if value}
        files = {path: content for path, content in self.files.items() if path != SIGNATURES}
        return replace(self, files=files, manifest={**self.manifest, "metadata": metadata})

    def contents(self) -> dict[str, bytes]:
        """All files, with the manifest."""
        manifest = json.dumps(self.manifest, indent=2, sort_keys=True) + "\n"
        return {**self.files, MANIFEST: manifest.encode()}

    def packed(self) -> bytes:
        """The bytes of the file; the same for the same content."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for path, content in sorted(self.contents().items()):
                member = tarfile.TarInfo(f"/{path}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return gzip.compress(packed.getvalue(), mtime=0)


def revision(files: Mapping[str, bytes]) -> str:
    """12 hex digits that identify files."""
    summary = hashlib.sha256()
    for path, content in sorted(files.items()):
        summary.update(f"{path}\0{len(content)}\0".encode() + content)
    return summary.hexdigest()[:12]


def read(path: Path) -> Archive:
    """The bundle in a file. Raises InputError."""
    try:
        with path.open("rb") as stream:
            packed = stream.read(LARGEST + 1)
    except OSError as error:
        raise InputError(
            path,
            f"cannot be read ({error.strerror}): name a bundle that `fairlead bundle build` made",
        ) from error
    return unpacked(packed, path)


def unpacked(packed: bytes, origin: object) -> Archive:
    """The bundle of these bytes; messages name it by `origin`. Raises InputError."""
    try:
        files = _files(packed)
        manifest = json.loads(files.pop(MANIFEST))
    except (OSError, EOFError, tarfile.TarError, ValueError, RecursionError) as error:
        raise InputError(
            origin, f"is not a bundle ({error}): build it again by `fairlead bundle build`"
        ) from error
    except KeyError as error:
        raise InputError(
            origin, "has no .manifest: build it again by `fairlead bundle build`"
        ) from error
    if not isinstance(manifest, dict):
        raise InputError(origin, "has a .manifest that is not an object: build the bundle again")
    return Archive(files, manifest)


def _files(packed: bytes) -> dict[str, bytes]:
    """The files of a gzipped tar. Raises ValueError for one that is too large, and what gzip and
    tarfile raise.
    """
    with gzip.open(io.BytesIO(packed)) as stream:
        unpacked = stream.read(LARGEST + 1)
    if max(len(packed), len(unpacked)) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    files = {}
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
        for member in archive:
            # A sparse file has any size, with few bytes in the tar.
            is_regular = member.isreg() and not member.issparse()
            content = archive.extractfile(member) if is_regular else None
            parts = PurePosixPath(member.name.lstrip("/")).parts
            path = "/".join(parts)
            if content is None or not parts or ".." in parts or path in files:
                raise ValueError(f"{member.name!r} is not a file of a bundle")
            files[path] = content.read()
    return files

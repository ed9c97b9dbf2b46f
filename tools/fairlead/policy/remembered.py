"""Remembers which policies passed their checks and tests, in the user's cache.

The same texts give the same results with the same OPA, so a push need not test them again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path

from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.opa.cli import Tested
from fairlead.programs import toolchain

_KEPT = 50


def key(folder: Path, progress: Progress) -> str:
    """What identifies the files below `folder`, and OPA: 64 hex digits."""
    digest = hashlib.sha256(str(toolchain.ensure(["opa"], progress)["opa"]).encode())
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(folder)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def passed(key: str) -> Tested | None:
    """The result of these policies, if all their checks and tests passed before."""
    try:
        return Tested(int(json.loads((_home() / key).read_text())), ())
    except (OSError, TypeError, ValueError):
        return None


def remember(key: str, result: Tested) -> None:
    """Keep that these policies passed. A cache that cannot be written is not an error."""
    home = _home()
    with contextlib.suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=home, prefix=".")
        with os.fdopen(descriptor, "w") as file:
            file.write(str(result.passed))
        Path(name).replace(home / key)
        newest = sorted(home.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in newest[_KEPT:]:
            path.unlink(missing_ok=True)


def _home() -> Path:
    return paths.cache() / "tested"

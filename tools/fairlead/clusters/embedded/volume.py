"""Writes the files of a mounted Secret, and replaces all of them at once, as the kubelet does.

`folder`/<key> is a link to ..data/<key>, and ..data is a link to the folder with the present
contents. One rename changes all files, so no reader combines a certificate with another one's key.
Source: Kubernetes, pkg/volume/util, AtomicWriter.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fairlead.common import atomic_files

_DATA = "..data"


def write(folder: Path, contents: Mapping[str, bytes]) -> bool:
    """Make `folder` hold exactly `contents`, key -> data, readable by its owner only; False
    if it does already. Raises OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    data = folder / _DATA
    if read(folder) == contents:
        return False
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    for key, value in contents.items():
        atomic_files.write_private(fresh / key, value)
    _link(data, fresh.name)
    for key in contents:
        _link(folder / key, f"{_DATA}/{key}")
    for path in folder.iterdir():
        if path.name in (*contents, _DATA, fresh.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return True


def read(folder: Path) -> dict[str, bytes]:
    """The contents of `folder`, key -> data; empty if nothing was written."""
    link = folder / _DATA
    with suppress(FileNotFoundError):
        while link.is_symlink():  # of the link alone, because `write` may remove its target
            target = link.readlink()  # read once, as all values belong together
            contents: dict[str, bytes] = {}
            with suppress(FileNotFoundError):
                contents = {path.name: path.read_bytes() for path in (folder / target).iterdir()}
            if link.readlink() == target:  # else `write` replaced it, and may have removed a part
                return contents
    return {}


def _link(path: Path, target: str) -> None:
    """Make `path` a link to `target` in one step, whatever it was before."""
    if path.is_symlink() and str(path.readlink()) == target:
        return
    temporary = path.with_name(f"..new-{path.name}")
    temporary.unlink(missing_ok=True)
    os.symlink(target, temporary)  # noqa: PTH211 - as the rename below, of names and not of what they lead to
    temporary.replace(path)

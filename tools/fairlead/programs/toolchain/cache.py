"""The cache on disk: one process writes at a time, and only finished programs are published."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from fairlead.common import locks
from fairlead.common.errors import FairleadError
from fairlead.programs.processes import StoppedError

_TEMPORARY = "tmp-"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_AGAIN = 0.2  # seconds between two tries to get a lock


@contextmanager
def locked_workspace(home: Path, waiting: Callable[[], None], stop: Event) -> Iterator[Path]:
    """A new folder inside `home`, which is removed at the end; no other process builds meanwhile.

    `waiting` is called once if another process builds now. That process holds a lock until it
    ends, so any temporary folder that is there afterwards belongs to a dead build, and is removed.

    Raises FairleadError if the cache cannot be written, and StoppedError soon after `stop` is set.
    """
    with _writing(home):
        home.mkdir(parents=True, exist_ok=True)
        announced = False

        def pause() -> None:
            nonlocal announced
            if not announced:
                waiting()
                announced = True
            if stop.wait(_AGAIN):
                raise StoppedError("stopped")

        lock = home / "lock"
        with locks.exclusive(lock, create=lock.touch, pause=pause):
            _clean(home)
            try:
                yield Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=home))
            finally:
                _clean(home)


def publish(finished: Path, target: Path) -> None:
    """Move a finished file or folder to its place in one step, after its bytes are on disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if finished.is_file():
        descriptor = os.open(finished, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    finished.rename(target)


def full(folder: Path, output: str) -> str | None:
    """A message if `output`, of a program that wrote into `folder`, says that the disk is full."""
    return (
        _full(folder)
        if re.search("no space left on device|quota exceeded", output, re.IGNORECASE)
        else None
    )


def _full(folder: Path) -> str:
    return (
        f"no space is left on the disk of {folder}: free some (a complete build takes up to 6 GB "
        "with Go's own caches), or set XDG_CACHE_HOME to a folder on another disk"
    )


@contextmanager
def _writing(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise FairleadError(_full(home)) from error
        raise FairleadError(
            f"cannot write the cache folder {home} ({error.strerror}): set XDG_CACHE_HOME to one "
            "that you may write"
        ) from error


def _clean(home: Path) -> None:
    for leftover in home.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(leftover, ignore_errors=True)

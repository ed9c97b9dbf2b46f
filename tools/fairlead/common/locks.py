"""Locks between processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


@contextmanager
def exclusive(
    path: Path, *, create: Callable[[], None], pause: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold the lock of a file or folder, which one process at a time can hold.

    The lock belongs to the open file, so it ends with its process. `create` makes the file or
    folder if it is missing, and is called again if another process removes it in the meantime.
    While another process holds the lock, `pause` is called before each new attempt; without it,
    this waits. Raises OSError, and what `create` and `pause` raise.
    """
    while (descriptor := _locked(path, create, pause)) is None:
        pass
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: Path, create: Callable[[], None], pause: Callable[[], None] | None) -> int | None:
    """A descriptor that holds the lock; None if another process removed the file meanwhile."""
    create()
    with suppress(FileNotFoundError), ExitStack() as cleanup:
        # Over NFS, only a file that is open for writing can be locked.
        descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
        cleanup.callback(os.close, descriptor)
        _lock(descriptor, pause)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            cleanup.pop_all()
            return descriptor
    return None


def _lock(descriptor: int, pause: Callable[[], None] | None) -> None:
    if pause is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pause()

"""What each worker reports, so that any of them can answer for all.

Each worker has two files in the folder of the server: its report, and a lock that it holds as long
as it lives. Linux releases the lock of a process that was killed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fairlead.common import atomic_files


class Reports:
    """The reports of all workers of a server, written into its `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = folder / f"{os.getpid()}.json"
        self._lock = os.open(self._own.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def write(self, report: Mapping[str, Any]) -> None:
        """Replace the report of this worker. Raises OSError."""
        atomic_files.write_private(self._own, json.dumps(report).encode())

    def read(self) -> Iterator[dict[str, Any]]:
        """The reports of all workers that live, this one among them."""
        for lock in self._folder.glob("*.lock"):
            if _held(lock):
                try:
                    yield json.loads(lock.with_suffix(".json").read_bytes())
                except FileNotFoundError:  # it is about to write its first report
                    yield {}


def _held(lock: Path) -> bool:
    descriptor = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False

"""The peak memory of a process."""

from __future__ import annotations

from lab.fuzz import limits


def peak(pid: int | None) -> int:
    """The peak resident memory of a running process in MiB."""
    size = limits.peak(pid)
    assert size, f"process {pid} has ended, or this system does not tell"
    return size >> 20

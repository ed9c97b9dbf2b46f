"""The peak memory of a process."""

from __future__ import annotations

from fairlead.checks.fuzz import limits


def peak(pid: int | None) -> int:
    """MiB that a process that runs had resident at most."""
    size = limits.peak(pid)
    assert size, f"process {pid} has ended, or this system does not tell"
    return size >> 20

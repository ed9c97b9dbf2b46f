"""The list of a cluster's processes: its supervisor writes it, everyone else reads it.

Standard library only, as the supervisor that imports it lives as long as the cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

from fairlead.common import atomic_files

FILE = "processes.json"


class SupervisorRecord(TypedDict):
    """The supervisor itself; `stopping` is true once it ends its servers."""

    pid: int
    started: str | None
    stopping: bool


class ServerRecord(TypedDict):
    """One server; pid and started are None while it does not run, exit is how it last ended
    (-N: by signal N).
    """

    pid: int | None
    started: str | None
    restarts: int
    log: str
    exit: int | None


class Record(TypedDict):
    """The content of processes.json; the servers are in the order of their start."""

    supervisor: SupervisorRecord
    servers: dict[str, ServerRecord]


def started(pid: int) -> str | None:
    """When the kernel started `pid`, in the kernel's own unit; None if it does not run (any more).

    Pids are reused; a pid together with its start time and the boot is unique. Source: proc(5),
    /proc/PID/stat, fields 3 and 22.
    """
    if sys.platform != "linux":
        return _started_by_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else f"{fields[19]}@{boot[:8]}"


def _started_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    state, _, when = completed.stdout.strip().partition(" ")
    return None if not when or state.startswith("Z") else when.strip()


def alive(pid: int | None, start: str | None) -> bool:
    """Whether `pid` is still the process that was started at `start`."""
    return pid is not None and start is not None and started(pid) == start


def send(pid: int | None, start: str | None, number: signal.Signals) -> bool:
    """Send the signal `number` to `pid` if it is still the process started at `start`;
    returns whether it is.
    """
    if pid is None:
        return False
    try:
        # Opened before the check: from then on it cannot refer to another process.
        handle = os.pidfd_open(pid) if sys.platform == "linux" else -1
    except OSError:
        return False
    try:
        if not alive(pid, start):
            return False
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "linux":
                signal.pidfd_send_signal(handle, number)
            else:
                os.kill(pid, number)
        return True
    finally:
        if handle >= 0:
            os.close(handle)


def read(folder: Path) -> Record | None:
    """The last record of the supervisor of the cluster in `folder`; None if there is none
    that can be read.
    """
    try:
        record: Record = json.loads((folder / FILE).read_text(encoding="utf-8"))
        _ = record["supervisor"]["pid"], record["servers"].items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return record


def write(folder: Path, record: Record) -> None:
    """Replace the record in `folder`. Raises OSError, for instance if the disk is full."""
    atomic_files.write_private(folder / FILE, json.dumps(record, indent=1).encode())

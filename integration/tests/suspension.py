"""Processes that are suspended for a while, as one that hangs."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.deployment.names import CERTIFICATE_LEASE, LIFECYCLE_LEASE
from fairlead.keeper.lease import Lease


def suspend(pid: int | None) -> None:
    """Stop a process, and wait until each of its threads has stopped.

    On a busy machine `kill` returns earlier, and a thread can still handle an event.
    """
    assert pid
    os.kill(pid, signal.SIGSTOP)
    until(lambda: all(state == "T" for state in _states(pid)), what=f"process {pid} has stopped")


def resume(pid: int | None) -> None:
    """Continue a stopped process, unless its probe had it killed."""
    assert pid
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def suspended(pid: int | None) -> Iterator[None]:
    """Suspend a process during the block."""
    suspend(pid)
    try:
        yield
    finally:
        resume(pid)


@contextlib.contextmanager
def unprobed(url: str) -> Iterator[None]:
    """Suspend the liveness probe of `url` during the block, so that nothing is restarted."""
    lines = {
        path.parent: path.read_bytes()
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists()
    }
    (probe,) = [
        int(path.name)
        for path, line in lines.items()
        if b"embedded.probe" in line and url.encode() in line
    ]
    with suspended(probe):
        yield


@contextlib.contextmanager
def without_controller(cluster: EmbeddedCluster) -> Iterator[None]:
    """Suspend the controller during the block, while it holds no Lease."""
    (controller,) = cluster.controllers()
    with contextlib.ExitStack() as stack:
        stack.enter_context(unprobed(controller.url))
        with contextlib.ExitStack() as leases:
            for name in (LIFECYCLE_LEASE, CERTIFICATE_LEASE):
                leases.enter_context(Lease(cluster.objects(), "somebody", name=name).held())
            stack.enter_context(suspended(controller.pid))
        yield


def _states(pid: int) -> list[str]:
    """The states of a process's threads. Source: proc(5), field 3 of /proc/PID/task/TID/stat."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return [path.read_text().rpartition(")")[2].split()[0] for path in threads]

"""A server that hangs is noticed and started again by its liveness probe, as a kubelet does it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from fairlead import waiting
from fairlead.clusters.embedded.placing import EmbeddedCluster

pytestmark = pytest.mark.embedded

AGAIN = 120
"""Seconds in which a hung server has to run again; it takes 20 where the machine has nothing else to do."""


@pytest.fixture
def hang() -> Iterator[Callable[[int | None], None]]:
    """Stops a process; one that still is there goes on after the test."""
    stopped = []

    def stop(pid: int | None) -> None:
        assert pid
        os.kill(pid, signal.SIGSTOP)
        stopped.append(pid)

    yield stop
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("server", ["sync", "opa"])
def test_what_hangs_is_started_again(cluster: EmbeddedCluster, hang: Callable[[int | None], None], server: str) -> None:
    """A stopped process accepts connections all the same: its port tells nothing."""
    before, began = cluster.servers()[server]["pid"], time.monotonic()
    hang(before)
    waiting.until(lambda: cluster.servers()[server]["pid"] not in (before, None), deadline=AGAIN, what="it runs again")
    print(f"{server} was started again after {time.monotonic() - began:.1f} s")  # noqa: T201

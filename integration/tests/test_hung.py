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
from fairlead.deploy import deploy
from fairlead.opa_api import OpaApi, OpaUnavailable
from fairlead.progress import Progress
from fairlead.settings import STALENESS, Settings

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


@pytest.fixture
def bounded(cluster: EmbeddedCluster, settings: Settings) -> Iterator[int]:
    """Has the least of maxStaleness in force, which is told in seconds."""
    least = STALENESS[0]
    deploy(cluster, settings.model_copy(update={"max_staleness": least}), progress=Progress())
    yield least
    deploy(cluster, settings, progress=Progress())


def ready(opa: OpaApi) -> bool:
    try:
        return opa.ready()
    except OpaUnavailable:
        return False


def test_an_opa_whose_data_nobody_confirms_is_not_ready(
    cluster: EmbeddedCluster, opa: OpaApi, bounded: int, hang: Callable[[int | None], None]
) -> None:
    """For all that the sidecar sees, its watches stay open; its own liveness is not to suffer."""
    servers = cluster.servers()
    waiting.until(lambda: ready(opa), deadline=AGAIN, what="it is Ready")
    assert (opa.document(["fairlead_confirmed"]) or {})["within"] == bounded
    api_server = servers["kube-apiserver"]["pid"]
    hang(api_server)
    waiting.until(lambda: not ready(opa), deadline=AGAIN, what="it is not Ready while the API server hangs")
    assert api_server
    os.kill(api_server, signal.SIGCONT)
    waiting.until(lambda: ready(opa), deadline=AGAIN, what="it is Ready again")
    assert cluster.servers()["sync"]["pid"] == servers["sync"]["pid"]
    hang(servers["sync"]["pid"])
    waiting.until(lambda: not ready(opa), deadline=AGAIN, what="it is not Ready while the sidecar hangs")
    waiting.until(lambda: ready(opa), deadline=AGAIN, what="it is Ready again, as the sidecar was restarted")

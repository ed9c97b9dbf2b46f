"""The controllers of access: what they report, and the wait until one of them works."""

from __future__ import annotations

from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.operations import deployed_state

_DEADLINE = 60.0
"""Seconds within which one works: one that takes over from a killed one waits for 8 s."""


def controllers(cluster: Cluster) -> list[dict[str, Any]]:
    """Each controller: {pod, url, pid, healthy, reasons, leading, bindings}. `leading` says whether
    it is the one that works, and `bindings` how many there are by its decisions; both are None if
    it does not answer.
    """
    return [
        deployed_state.report(server, "leading", "bindings")
        for server in cluster.access_controllers()
    ]


def until_one_works(cluster: Cluster, *, progress: Progress) -> None:
    """Return when a controller holds the Lease. Raises FairleadError with their reasons if none
    does in time.
    """

    def works() -> bool:
        rows = controllers(cluster)
        if any(row["leading"] for row in rows):
            return True
        reasons = [f"{row['pod']}: {reason}" for row in rows for reason in row["reasons"]]
        raise FairleadError("; ".join(reasons) or "see `fairlead logs controller`")

    progress.update("access", "waiting until its controller works")
    waiting.until(works, deadline=_DEADLINE, what="a controller of access works", pause=0.1)
    progress.finish("access", "its controller works")

"""Looks once a second at the memory of every server, and at the pods that were created."""

from __future__ import annotations

import time
from typing import Any

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from lab.bench import processes
from lab.beside import Beside
from lab.chaos.invariants import Attempt
from lab.chaos.load import Ledger
from lab.chaos.report import percentile
from lab.scale.running import Running

PERIOD = 1.0
"""Seconds from one look to the next."""

Series = dict[str, Any]
"""Lists of equal lengths, with a value for each look: `seconds` since the beginning, how many pods
were `created` and how many attempts `failed` since the look before, `p50` and `p99` of the
milliseconds in which those were created (None if there were none), `pending` pods that exist and do
not run; and `memory`, the MiB of each server (0 while it does not run)."""


class Samples(Beside):
    """The looks during the block; `began` is when it began, by the monotonic clock."""

    def __init__(self, cluster: EmbeddedCluster, ledger: Ledger, running: Running) -> None:
        super().__init__()
        self.began = time.monotonic()
        self._cluster = cluster
        self._ledger = ledger
        self._running = running
        self._looks: list[Series] = []
        self._seen = self._existing = 0

    def _finish(self) -> None:
        self._looks.append(self._look())  # so that no attempt is missed

    def series(self) -> Series:
        """All looks, once the block has ended."""
        looks = self._looks
        columns = [key for key in looks[0] if key != "memory"]
        servers = {name: None for look in looks for name in look["memory"]}
        return {
            **{column: [look[column] for look in looks] for column in columns},
            "memory": {name: [look["memory"].get(name, 0) for look in looks] for name in servers},
        }

    def _follow(self) -> None:
        due = self.began
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            self._looks.append(self._look())
            due = max(due + PERIOD, time.monotonic())

    def _look(self) -> Series:
        running = len(self._running.since)
        new = self._ledger.attempts[self._seen :]
        self._seen += len(new)
        pods = [attempt for attempt in new if attempt.is_pod]
        created = [attempt for attempt in pods if attempt.outcome == "created"]
        existing = [attempt for attempt in pods if attempt.outcome == "there already"]
        self._existing += len(created) + len(existing)
        times = [milliseconds(attempt) for attempt in created]
        return {
            "seconds": round(time.monotonic() - self.began, 1),
            "created": len(created),
            "failed": len(pods) - len(created) - len(existing),
            "p50": percentile(times, 50),
            "p99": percentile(times, 99),
            # A pod may be seen to run before its client has the answer.
            "pending": max(0, self._existing - running),
            "memory": processes.memories(processes.pids(self._cluster)),
        }


def milliseconds(attempt: Attempt) -> float:
    """How long the attempt took."""
    return (attempt.ended - attempt.began) * 1000

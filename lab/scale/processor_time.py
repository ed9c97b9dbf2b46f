"""Adds up the processor time of servers, also of those that are killed and started again."""

from __future__ import annotations

from collections import defaultdict

from fairlead.clusters.embedded.bare_cluster import BareCluster
from lab.bench import processes


class ProcessorTime:
    """`seconds` has the processor time that each server of the cluster took from the call of
    `begin` to the last one of `add`.
    """

    def __init__(self, cluster: BareCluster) -> None:
        self._cluster = cluster
        self._counted: dict[int, float] = {}
        self.seconds: dict[str, float] = defaultdict(float)

    def begin(self) -> None:
        """Count from now on."""
        self.add()
        self.seconds.clear()

    def add(self) -> None:
        """Count what the processes took since the last call. Before a server is killed, this has to
        be called: nobody can ask later.
        """
        pids = processes.pids(self._cluster)
        for name, seconds in processes.processor(pids).items():
            self.seconds[name] += seconds - self._counted.get(pids[name], 0.0)
            self._counted[pids[name]] = seconds

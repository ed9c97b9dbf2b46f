"""Brings a workload from the clusters where it runs to those of the decision, step by step: a few
replicas start where they are missing; once they are ready, as many end where they are too many."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.common.errors import FairleadError
from fairlead.federation import readiness, shares, steps
from fairlead.federation.reached import ReachedCluster, is_ours
from fairlead.federation.workloads import Workload


class Move:
    """The move of one workload between the clusters that were reached. Call `grow`, wait until
    `is_ready`, call `shrink`, and begin again until it is `finished`.

    `counts` are the replicas of each cluster that has any. `problem` says why the workload stays in
    clusters where it has too many; empty if nothing is in the way.
    """

    def __init__(
        self, workload: Workload, clusters: Mapping[str, ReachedCluster], share: float
    ) -> None:
        """`share` is how much of its replicas may move at once, above 0, up to 1."""
        self.workload = workload
        self.problem = ""
        self.finished = False
        self.counts: dict[str, int] = {}
        self._clusters = clusters
        self._asked = sum(workload.replicas.values())
        self._at_once = steps.at_once(self._asked, share)
        self._applied: set[str] = set()
        self._refused: set[str] = set()
        self._left: int | None = None

    @property
    def sources(self) -> list[str]:
        """The clusters that have more than their share."""
        return steps.sources(self.counts, self.workload.replicas)

    def grow(self) -> None:
        """Apply the workload in the clusters that have no more than their share: what they lack, as
        far as a step goes.
        """
        self.counts = self._live_counts()
        before = dict(self.counts)
        wanted = steps.grown(self.counts, self._targets, self._asked, self._at_once)
        for name, count in sorted(wanted.items()):
            if name in self.sources or (name in self._applied and before.get(name) == count):
                continue
            if self._clusters[name].apply(shares.manifest(self.workload, name, count)):
                self.counts[name] = count
                self._applied.add(name)
            else:
                self._refused.add(name)
        if not self.sources:
            self.finished = True
        left = self._distance()
        if self._left is not None and left >= self._left and not self.finished:
            self.stay(self._obstacle)
        self._left = left

    def is_ready(self) -> bool:
        """Whether all replicas are ready in the clusters that the decision names, or the move ends
        with a problem, because they never will be. Raises FairleadError while they are not.
        """
        for name in sorted(self._targets):
            if name in self.sources or name not in self.counts:
                continue
            live = self._clusters[name].read(shares.named(self.workload))
            if self._clusters[name].lost:
                self.stay(f"{name} does not answer")
                break
            if live is None or not is_ours(live):
                self.stay(f"it is no longer in {name}")
                break
            ready = readiness.available(live)
            if ready < self.counts[name]:
                raise FairleadError(f"{ready} of {self.counts[name]} pods are available in {name}")
        return True

    def shrink(self) -> None:
        """Apply the workload where it has more than its share, or remove it: as many replicas as
        there are more than it asks for.
        """
        ready = {
            name: readiness.available(live)
            for name in self.sources
            if (live := self._clusters[name].read(shares.named(self.workload)))
        }
        smaller = steps.shrunk(self.counts, self.workload.replicas, self._asked, ready)
        for name in self.sources:
            if not smaller[name] and name not in self.workload.replicas:
                self._clusters[name].remove(shares.named(self.workload))
            elif smaller[name] < self.counts[name]:
                self._clusters[name].apply(shares.manifest(self.workload, name, smaller[name]))

    def stay(self, problem: str) -> None:
        """End the move for this reason."""
        self.problem, self.finished = problem, True

    @property
    def _targets(self) -> dict[str, int]:
        """The replicas of the clusters of the decision that take any."""
        return {
            name: count
            for name, count in self.workload.replicas.items()
            if name in self._clusters
            and not self._clusters[name].lost
            and name not in self._refused
        }

    @property
    def _obstacle(self) -> str:
        missing = sorted(self.workload.replicas.keys() - self._targets.keys())
        if missing:
            return f"not all of it could be applied in {', '.join(missing)}"
        return "its replicas are not reduced there, or something else changes them"

    def _live_counts(self) -> dict[str, int]:
        return {
            name: readiness.asked(live)
            for name, cluster in self._clusters.items()
            if (live := cluster.read(shares.named(self.workload)))
            and is_ours(live)
            and not live["metadata"].get("deletionTimestamp")
        }

    def _distance(self) -> int:
        """How many replicas are too many or missing in the clusters, and where it should not be."""
        names = self.counts.keys() | self.workload.replicas.keys()
        wanted = self.workload.replicas
        return sum(
            abs(self.counts.get(name, 0) - wanted.get(name, 0)) + (name not in wanted)
            for name in names
        )

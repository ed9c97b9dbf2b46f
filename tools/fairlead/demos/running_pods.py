"""Counts the pods that run in some namespaces of several clusters, without those of Jobs, which
end."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.demos.beside import Beside
from fairlead.federation import readiness
from fairlead.kube.clients import Objects

_POLL = 0.5
"""Seconds between two counts."""


@dataclass(frozen=True)
class Watched:
    """The clusters by name, and the namespaces that are looked at in them."""

    clusters: Mapping[str, Cluster]
    namespaces: Collection[str]

    def counts(self) -> dict[str, int]:
        """The pods that run in each cluster now."""
        return {
            name: _count(cluster.objects(), self.namespaces)
            for name, cluster in self.clusters.items()
        }

    def jobs(self) -> list[str]:
        """The Jobs that have not ended, such as `shop/report in eu-frankfurt`."""
        return [
            f"{job['metadata']['namespace']}/{job['metadata']['name']} in {name}"
            for name, cluster in self.clusters.items()
            for job in cluster.objects().list("batch/v1", "Job", None)
            if job["metadata"]["namespace"] in self.namespaces and not readiness.has_ended(job)
        ]

    def until(self, expected: Mapping[str, int], within: float) -> dict[str, int]:
        """The pods that run in each cluster as soon as they are as expected and all Jobs have
        ended, or after `within` seconds.
        """

        def look() -> dict[str, int] | None:
            counts = self.counts()
            return counts if counts == expected and not self.jobs() else None

        try:
            return waiting.until(look, deadline=within, what="they run", pause=_POLL)
        except FairleadError:
            return self.counts()

    def meanwhile(self, order: Sequence[str]) -> Fewest:
        """Counts what runs in all clusters together, while a block goes on. Pods that move have to
        leave clusters that come before those where they go, or they could be missed on their way.
        """
        return Fewest([self.clusters[name] for name in order], self.namespaces)


class Fewest(Beside):
    """The least `number` of pods that ran during the block; None if it was too short to count."""

    def __init__(self, clusters: Sequence[Cluster], namespaces: Collection[str]) -> None:
        super().__init__()
        self.number: int | None = None
        self._clusters = clusters
        self._namespaces = namespaces

    def _follow(self) -> None:
        objects = [cluster.objects() for cluster in self._clusters]  # for this thread
        while not self._ended.wait(_POLL):
            number = sum(_count(each, self._namespaces) for each in objects)
            self.number = number if self.number is None else min(number, self.number)


def _count(objects: Objects, namespaces: Collection[str]) -> int:
    pods = objects.list("v1", "Pod", None)
    return sum(pod["metadata"]["namespace"] in namespaces and _runs(pod) for pod in pods)


def _runs(pod: Mapping[str, Any]) -> bool:
    metadata = pod["metadata"]
    owners = metadata.get("ownerReferences") or ()
    return (
        pod["status"].get("phase") == "Running"
        and not metadata.get("deletionTimestamp")
        and not any(owner["kind"] == "Job" for owner in owners)
    )

"""Applies manifests in member clusters as it was decided: first what is new; then, once that is
ready, it takes away what the decision no longer names.

Nothing is remembered between two runs. What the clusters hold says what is left to do, so that a
run after an interruption goes on, and one after a complete run changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.common import waiting
from fairlead.common.errors import FairleadError, InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.federation import members, readiness, shares
from fairlead.federation.members import Member
from fairlead.federation.reached import ReachedCluster, is_ours
from fairlead.federation.shares import Shares
from fairlead.federation.workloads import Workload
from fairlead.kube.errors import Refused
from fairlead.operations.applying import Outcome

_POLL = 0.3
"""Seconds between two looks at a workload that is not ready."""


@dataclass
class Report:
    """What became of the objects in each cluster that was reached, and what could not be done;
    `problems` are sentences.
    """

    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def execute(
    decided: Shares, clusters: Sequence[Member], *, timeout: float, progress: Progress
) -> Report:
    """Apply what each cluster gets, and remove what it does not. A workload leaves a cluster, or
    shrinks there, once it is ready in its other clusters; `timeout` is for how many seconds to wait
    for that.

    Only objects that were applied in this way before are changed or removed. Raises UsageError, and
    changes nothing, if a cluster of the decisions is no member, or two members are one cluster.
    """
    known = {member.name for member in clusters}
    missing = [name for name in decided.clusters if name not in known]
    if missing:
        raise UsageError(
            f"the decisions name clusters that are no members: {', '.join(missing)}. Say where "
            f"they are, as by --member {missing[0]}=CONTEXT. Nothing was changed"
        )
    report = Report()
    reached = {}
    for member in clusters:
        progress.update(member.name, "connecting")
        try:
            reached[member.name] = member.objects()
        except InputError:
            raise
        except (UsageError, Refused) as error:
            report.problems.append(f"{member.name}: {error.__cause__ or error}")
        progress.finish(member.name, "connected" if member.name in reached else "not reached")
    members.require_distinct(reached)
    run = _Run(decided, [ReachedCluster(name, each) for name, each in reached.items()], known)
    run.carry_out(time.monotonic() + timeout, progress)
    for cluster in run.clusters.values():
        report.outcomes[cluster.name] = cluster.applier.outcomes
        report.problems += cluster.problems
    report.problems += run.problems
    return report


class _Run:
    def __init__(self, decided: Shares, reached: Sequence[ReachedCluster], known: set[str]) -> None:
        self.decided = decided
        self.clusters = {cluster.name: cluster for cluster in reached}
        self.known = known
        self.problems: list[str] = []
        # The workloads that are not in all of their clusters.
        self.incomplete: set[str] = set()

    def carry_out(self, end: float, progress: Progress) -> None:
        """All steps; wait until `end` (time.monotonic) for what has to be ready."""
        for cluster in self.clusters.values():
            for manifest in self.decided.beside(cluster.name):
                cluster.apply(manifest)
        larger = [(workload, self._start(workload)) for workload in self.decided.workloads]
        kept = set()
        for workload, clusters in larger:
            if not clusters:
                continue
            if self._ready(workload, clusters, end, progress):
                for cluster in clusters:
                    self._shrink(workload, cluster)
            else:
                kept |= {(cluster.name, workload.namespace) for cluster in clusters}
        for cluster in self.clusters.values():
            for manifest in self.decided.left(cluster.name):
                if (cluster.name, manifest["metadata"]["namespace"]) not in kept:
                    cluster.remove(manifest)

    def _start(self, workload: Workload) -> list[ReachedCluster]:
        """Apply the workload where it has at most its share; returns the clusters where it has
        more, or where it should not be.
        """
        live = {
            name: present
            for name, cluster in self.clusters.items()
            if (present := cluster.read(shares.named(workload))) and is_ours(present)
        }
        if workload.kind == "Job" and not self._may_start(workload, live):
            return []
        larger = []
        for name, cluster in self.clusters.items():
            share = workload.replicas.get(name)
            if name in live and (share is None or _count(workload, live[name]) > share):
                larger.append(cluster)
            elif share is not None and not cluster.apply(shares.manifest(workload, name)):
                self.incomplete.add(workload.placement.title)
        if workload.replicas.keys() - self.clusters.keys():
            self.incomplete.add(workload.placement.title)
        return larger

    def _may_start(self, job: Workload, live: Mapping[str, Any]) -> bool:
        """Whether the Job may be applied where it is missing. What runs cannot be divided again, so
        a Job that was divided otherwise stays as it is; and it might run where nobody can look.
        """
        away = [name for name in sorted(self.known) if not self._answers(name)]
        if away and not live:
            self.problems.append(
                f"{job.placement.title} was not started, as it might run in {', '.join(away)} "
                "already"
            )
            return False
        unnamed = [name for name in live if name not in job.replicas]
        running = [name for name in unnamed if not readiness.has_ended(live[name])]
        if running:
            self.problems.append(
                f"{job.placement.title} still runs in {', '.join(running)}: a Job is not moved. "
                "Delete it there to have it started elsewhere"
            )
        return not unnamed and all(
            shares.is_share(job, name, present) for name, present in live.items()
        )

    def _answers(self, name: str) -> bool:
        return name in self.clusters and not self.clusters[name].lost

    def _ready(
        self,
        workload: Workload,
        larger: Sequence[ReachedCluster],
        end: float,
        progress: Progress,
    ) -> bool:
        """Wait until the workload is ready wherever it has clusters besides `larger`."""
        title = workload.placement.title
        progress.update(title, "waiting until its pods are available elsewhere")
        problem = f"not all of it could be applied in {', '.join(workload.replicas)}"
        if title not in self.incomplete:
            try:
                problem = waiting.until(
                    lambda: self._problem(workload, [cluster.name for cluster in larger]),
                    deadline=max(0.0, end - time.monotonic()),
                    what="its pods are available in its other clusters",
                    pause=_POLL,
                )
            except FairleadError as error:
                problem = str(error)
        if problem:
            stays = ", ".join(cluster.name for cluster in larger)
            self.problems.append(f"{title} stays as it is in {stays}: {problem}")
        progress.finish(title, "not ready" if problem else "ready")
        return not problem

    def _problem(self, workload: Workload, larger: Sequence[str]) -> str:
        """Why the workload will not be ready; empty if it is. Raises FairleadError if it may become
        ready.
        """
        for name in workload.replicas.keys() - set(larger):
            live = self.clusters[name].read(shares.named(workload))
            if self.clusters[name].lost:
                return f"{name} does not answer"
            if live is None or not is_ours(live):
                return f"it is no longer in {name}"
            count, wanted = readiness.available(live), workload.replicas[name]
            if count < wanted:
                raise FairleadError(f"{count} of {wanted} pods are available in {name}")
        return ""

    def _shrink(self, workload: Workload, cluster: ReachedCluster) -> None:
        if cluster.name in workload.replicas:
            cluster.apply(shares.manifest(workload, cluster.name))
        else:
            cluster.remove(shares.named(workload))


def _count(workload: Workload, live: Mapping[str, Any]) -> int:
    count = live["spec"].get(workload.field)
    return 1 if count is None else int(count)

"""Applies manifests in member clusters as it was decided. What is new there starts first; what the
decision no longer names moves in steps, and ends once as much is ready elsewhere.

Nothing is remembered between two runs. What the clusters hold says what is left to do, so that a
run after an interruption goes on, and one after a complete run changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.common import waiting
from fairlead.common.errors import FairleadError, InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.federation import members, readiness, shares, steps
from fairlead.federation.members import Member
from fairlead.federation.moves import Move
from fairlead.federation.reached import ReachedCluster, is_ours
from fairlead.federation.shares import Shares
from fairlead.federation.workloads import Workload
from fairlead.kube.errors import Refused
from fairlead.operations.applying import Outcome

_POLL = 0.3
"""Seconds between two looks at a workload that is not ready."""


@dataclass
class Report:
    """What became of the objects in each cluster that was reached, and what could not be done.
    `problems` are sentences, and so are `notes`, which say what nobody looked at.
    """

    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def execute(
    decided: Shares,
    clusters: Sequence[Member],
    *,
    timeout: float,
    share: float = steps.SHARE,
    progress: Progress,
) -> Report:
    """Apply what each cluster gets, and remove what it does not. A workload leaves a cluster in
    steps: at most `share` of its replicas (above 0, up to 1; one at least) start elsewhere, and
    once they are ready, as many end. `timeout` is for how many seconds to wait in each step.

    A cluster of the data that is no member is noted, as nobody looks what runs there.

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
    elsewhere = sorted(decided.considered - known)
    report = Report(notes=[_unseen(elsewhere)] if elsewhere else [])
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
    answering = [ReachedCluster(name, each) for name, each in reached.items()]
    run = _Run(decided, answering, known)
    run.carry_out(share, timeout, progress)
    for cluster in run.clusters.values():
        report.outcomes[cluster.name] = cluster.applier.outcomes
        report.problems += cluster.problems
    report.problems += run.problems
    return report


def _unseen(names: Sequence[str]) -> str:
    """The note about clusters of the data that are no members."""
    are, them = ("is no member", "it") if len(names) == 1 else ("are no members", "them")
    return (
        f"{', '.join(names)} {are} here: what runs there goes on, and Jobs that ran there start "
        f"again in members. Give {them} by --member"
    )


class _Run:
    def __init__(
        self, decided: Shares, reached: Sequence[ReachedCluster], known: Collection[str]
    ) -> None:
        """`known` are the names of all members, also of those that cannot be reached."""
        self.decided = decided
        self.clusters = {cluster.name: cluster for cluster in reached}
        self.known = known
        self.problems: list[str] = []

    def carry_out(self, share: float, timeout: float, progress: Progress) -> None:
        """All steps; in each, wait up to `timeout` seconds for what has to be ready."""
        for cluster in self.clusters.values():
            for manifest in self.decided.beside(cluster.name):
                cluster.apply(manifest)
        moves = []
        for workload in self.decided.workloads:
            if workload.kind == "Job":
                self._start(workload)
            else:
                moves.append(Move(workload, self.clusters, share))
        unfinished = moves
        while unfinished:
            unfinished = self._step(unfinished, timeout, progress)
        kept = set()
        for move in moves:
            if move.problem and move.sources:
                title, stays = move.workload.placement.title, ", ".join(move.sources)
                self.problems.append(f"{title} stays as it is in {stays}: {move.problem}")
                kept |= {(name, move.workload.namespace) for name in move.sources}
        for cluster in self.clusters.values():
            for manifest in self.decided.left(cluster.name):
                if (cluster.name, manifest["metadata"]["namespace"]) not in kept:
                    cluster.remove(manifest)

    def _step(self, moves: Sequence[Move], timeout: float, progress: Progress) -> list[Move]:
        """One step of all moves at the same time; returns those that need another one."""
        for move in moves:
            move.grow()
        began = time.monotonic()
        for move in moves:
            if not move.finished:
                self._await(move, began, timeout, progress)
            if not move.finished:
                move.shrink()
        return [move for move in moves if not move.finished]

    def _await(self, move: Move, began: float, timeout: float, progress: Progress) -> None:
        """Wait for what a move has started in a step that `began` (time.monotonic), and may take
        `timeout` seconds for all moves together.
        """
        title = move.workload.placement.title
        progress.update(title, "waiting until its pods are available elsewhere")
        try:
            waiting.until(
                move.is_ready,
                deadline=timeout,
                since=began,
                what="its pods are available in its other clusters",
                pause=_POLL,
            )
        except FairleadError as error:
            move.stay(str(error))
        progress.finish(title, "not ready" if move.problem else "ready")

    def _start(self, job: Workload) -> None:
        """Apply the Job where it is missing, unless it was divided otherwise before."""
        live = {
            name: present
            for name, cluster in self.clusters.items()
            if (present := cluster.read(shares.named(job))) and is_ours(present)
        }
        if self._may_start(job, live):
            for name in job.replicas.keys() & self.clusters.keys():
                self.clusters[name].apply(shares.manifest(job, name))

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

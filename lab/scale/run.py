"""Runs everything: a cluster, its nodes, namespaces and pods, and a resync half-way."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import OPA_ENGINE
from fairlead.operations import up
from lab import resync
from lab.chaos.invariants import Attempt
from lab.chaos.load import Client, Ledger
from lab.resync import Resync
from lab.scale import creation, plan, pools
from lab.scale.plan import POOLS, SETTINGS, Name, Plan, Size
from lab.scale.pools import Misplaced
from lab.scale.processor_time import ProcessorTime
from lab.scale.running import Running
from lab.scale.samples import Samples, Series

FLAGS: Mapping[str, Mapping[str, object]] = {
    # By default, 50 requests a second: at most 50 pods a second get a node.
    "kube-scheduler": {"kube-api-qps": 500, "kube-api-burst": 1000},
    # As kubelets do. Each of 1,000 nodes renews its lease four times in that time: with the 12 s
    # of small clusters, 333 writes a second.
    "kwok": {"node-lease-duration-seconds": 40},
}
"""Flags of servers that differ from those of other embedded clusters."""
_PATIENCE = 600.0
"""Seconds within which nodes are ready, and everything is listed."""
STALLED = 180.0
"""Seconds after which the run ends although not all pods run, if nothing was created and no pod
began to run for so long."""
_LOOK = 0.1
"""Seconds between two looks at how far the clients are."""
_AFTERWARDS = 5.0
"""Seconds for which samples go on once all pods run."""


@dataclass(frozen=True)
class Run:
    """What a run showed. `marks` are seconds since the beginning of the samples: when `pods` began
    to be created, when the `resync` began, when OPA was ready with everything again (`resynced`),
    and when all pods were `created` and were `running`. What did not happen is missing.

    `processor` are the seconds of processor time that each server took while pods were created and
    scheduled.
    """

    plan: Plan
    attempts: Sequence[Attempt]
    running: Mapping[Name, float]
    wrong: Misplaced
    marks: Mapping[str, float]
    processor: Mapping[str, float]
    series: Series

    def complaint(self) -> str | None:
        """What does not hold; None if every pod runs where its pool says, and OPA got everything
        again.
        """
        if complaint := pools.complaint(self.wrong, len(self.plan.pods)):
            return complaint
        if "resynced" not in self.marks:
            return "OPA and its sidecar were killed, and did not get everything again"
        return None


def run(size: Size, progress: Progress) -> Run:
    """Create everything of that size, and look at it. Raises FairleadError if a part of the cluster
    does not come up; pods that are not placed are part of the result.
    """
    planned = plan.drawn(size)
    name = f"scale-{secrets.token_hex(4)}"
    nodes = dict.fromkeys(POOLS, 1)
    with up.started(
        name, SETTINGS, nodes, engine=OPA_ENGINE, further=FLAGS, progress=progress
    ) as cluster:
        progress.update("nodes", f"adding {size.nodes}")
        cluster.add_nodes(planned.nodes, deadline=_PATIENCE)
        progress.finish("nodes", f"{size.nodes} are ready")
        ledger = Ledger(SETTINGS)
        with Running(cluster.kubeconfig) as running:
            scene = _Scene(cluster, planned, ledger, running, progress)
            with Samples(cluster, ledger, running) as looks:
                scene.play()
            return scene.result(looks)


class _Scene:
    """A run while it goes on. `times` are those of Run.marks, by the monotonic clock."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        planned: Plan,
        ledger: Ledger,
        running: Running,
        progress: Progress,
    ) -> None:
        self._cluster = cluster
        self._plan = planned
        self._ledger = ledger
        self._running = running
        self._progress = progress
        self._times: dict[str, float] = {}
        self._processor = ProcessorTime(cluster)

    def play(self) -> None:
        self._create_namespaces()
        self._processor.begin()
        self._times["pods"] = time.monotonic()
        self._create_pods()
        self._processor.add()
        time.sleep(_AFTERWARDS)

    def result(self, looks: Samples) -> Run:
        client = Client(self._cluster.kubeconfig, self._ledger)
        pods = waiting.until(client.pods, deadline=_PATIENCE, what="all pods are listed")
        listed = self._cluster.objects().list("v1", "Node", None)
        pool_of_node = {
            node["metadata"]["name"]: node["metadata"]["labels"].get(SETTINGS.node_label)
            for node in listed
        }
        return Run(
            self._plan,
            self._ledger.attempts,
            self._running.since,
            pools.misplaced(pods, self._plan.pool_of, pool_of_node),
            {what: round(at - looks.began, 1) for what, at in self._times.items()},
            {name: round(seconds, 1) for name, seconds in self._processor.seconds.items()},
            looks.series(),
        )

    def _create_namespaces(self) -> None:
        total = len(self._plan.pools)
        with creation.namespaces(self._cluster.kubeconfig, self._ledger, self._plan) as creating:
            while not creating.ended:
                self._progress.update("namespaces", "creating", done=creating.created, total=total)
                time.sleep(_LOOK)
        api = resync.opa(self._cluster)
        waiting.until(
            lambda: resync.namespaces(api) == total,
            deadline=_PATIENCE,
            what=f"OPA has all {total} namespaces",
        )
        self._progress.finish("namespaces", f"{total} are mapped, and OPA has them")

    def _create_pods(self) -> None:
        total = len(self._plan.pods)
        again: Resync | None = None
        moved, before = time.monotonic(), (-1, -1)
        with creation.pods(
            self._cluster.kubeconfig, self._ledger, self._plan, self._running
        ) as creating:
            while (
                not creating.ended
                or len(self._running.since) < total
                or "resynced" not in self._times
            ):
                now = (creating.created, len(self._running.since))
                if now != before:
                    moved, before = time.monotonic(), now
                elif time.monotonic() - moved > STALLED:
                    self._progress.warn(f"nothing happened for {STALLED:.0f} s: the run ends here")
                    return
                if again is None and creating.created >= total // 2:
                    self._progress.update("resync", "OPA and its sidecar begin anew")
                    self._processor.add()
                    again = Resync(self._cluster)
                    creating.second_half.set()
                    self._times["resync"] = again.began
                self._look_for(again)
                self._progress.update(
                    "pods",
                    f"{creating.created} are created, {now[1]} run",
                    done=now[1],
                    total=total,
                )
                time.sleep(_LOOK)
        self._times["created"] = max(
            attempt.ended for attempt in self._ledger.attempts if attempt.is_pod
        )
        self._times["running"] = max(self._running.since.values())
        self._progress.finish("pods", f"{total} run")

    def _look_for(self, again: Resync | None) -> None:
        """Note when everything is in OPA again."""
        if again is None or "resynced" in self._times:
            return
        with suppress(FairleadError):
            if again.done(len(self._plan.pools)):
                self._times["resynced"] = time.monotonic()
                self._progress.finish("resync", "OPA has everything again")

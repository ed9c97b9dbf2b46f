"""Plays a relabelling of 1,000 namespaces, and outages of OPA, on 100 clusters of the largest size;
writes bench/simulation.json and prints it.

A simulation of discrete events, each cluster with a seed of its own; the same seed gives the same
figures. It stands in for a fleet that no machine of a developer holds. It knows what CONSTANTS say,
and nothing of networks that lose packets, of nodes, or of API servers that are overloaded.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log
from typing import Any

import click

from fairlead.cli import output
from fairlead.common import paths
from lab.chaos import report

RESULTS = "bench/simulation.json"
Row = dict[str, Any]
Action = Callable[[], None]


@dataclass(frozen=True)
class Constants:
    """What a cluster is like. All times are in seconds."""

    pods: int = 150_000
    namespaces: int = 10_000
    relabelled: int = 1_000
    replica_sets: int = 3
    """For each namespace; the pods are divided among them."""
    opas: int = 2
    answer: float = 0.0027
    """The processor time of OPA and its proxy for one answer (bench/results.json, processor)."""
    asked: int = 2
    """How often OPA is asked about a pod: to place it, and about the final state."""
    floor: float = 0.0042
    """A pod's creation without a policy, by one client (bench/results.json, latency)."""
    timeout: float = 5.0
    """The setting timeoutSeconds."""
    lag: float = 0.004
    """The median from a label at the API server to OPA's data (docs/node-pool.md)."""
    longest_lag: float = 0.050
    labels: float = 50.0
    """Namespaces that are relabelled in a second."""
    rollout: float = 1.0
    """The mean time from a label to the restart of the namespace's workloads."""
    creations: float = 100.0
    """Pods that controllers may create in a second: --kube-api-qps of the controller manager, whose
    default is 20."""
    workers: int = 5
    """--concurrent-replicaset-syncs of the controller manager."""
    first_retry: float = 0.005
    longest_retry: float = 1000.0
    """The waits of a ReplicaSet after failures (client-go, DefaultControllerRateLimiter): each is
    twice as long as the one before."""

    @property
    def pods_of_set(self) -> int:
        return self.pods // self.namespaces // self.replica_sets


class Clock:
    """Runs actions in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Action]] = []

    def after(self, seconds: float, action: Action) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), action))

    def run(self) -> None:
        while self._events:
            self.now, _, action = heapq.heappop(self._events)
            action()


class Opas:
    """The OPAs of a cluster, each with one processor and a queue. While they are `away`, each
    request fails: at once, or, if they are `hung`, when the API server waits no longer.
    """

    def __init__(self, clock: Clock, constants: Constants, choose: random.Random) -> None:
        self._clock, self._constants, self._choose = clock, constants, choose
        self._free = [0.0] * constants.opas
        self.away = self.hung = False
        self.busy = 0.0

    def ask(self, then: Callable[[bool], None]) -> None:
        """Ask any of them, and call `then` with whether there is an answer."""
        constants, now = self._constants, self._clock.now
        if self.away:
            self._clock.after(constants.timeout if self.hung else 0.0, lambda: then(False))
            return
        number = self._choose.randrange(len(self._free))
        takes = self._choose.expovariate(1 / constants.answer)
        self.busy += takes
        self._free[number] = max(self._free[number], now) + takes
        waits = self._free[number] - now
        answered = waits <= constants.timeout
        self._clock.after(min(waits, constants.timeout), lambda: then(answered))


@dataclass
class ReplicaSet:
    """A ReplicaSet: how many of its pods are missing, since when, and its failures in a row."""

    namespace: int
    missing: int = 0
    since: float = 0.0
    failures: int = 0


@dataclass
class Cluster:
    """A cluster, and what is counted while it runs."""

    constants: Constants
    seed: int
    clock: Clock = field(default_factory=Clock)
    latencies: list[float] = field(default_factory=list)
    """Of pods that were created."""
    delays: list[float] = field(default_factory=list)
    """From the moment when a ReplicaSet lacked its pods to the last of them, for each set."""
    refused: int = 0
    former: int = 0
    """Pods that were placed by the former pool of their namespace."""

    def __post_init__(self) -> None:
        self.choose = random.Random(self.seed)  # noqa: S311 - no secret
        self.opas = Opas(self.clock, self.constants, self.choose)
        self._waiting: deque[ReplicaSet] = deque()
        self._idle = self.constants.workers
        self._next = 0.0
        self.effective: dict[int, float] = {}
        """When OPA hears of the new label of a namespace."""

    def lack(self, replica_set: ReplicaSet, pods: int) -> None:
        """The ReplicaSet now lacks pods."""
        replica_set.missing, replica_set.since = pods, self.clock.now
        self._queue(replica_set)

    def _queue(self, replica_set: ReplicaSet) -> None:
        self._waiting.append(replica_set)
        if self._idle:
            self._idle -= 1
            self._work()

    def _work(self) -> None:
        """A worker takes the next ReplicaSet."""
        if self._waiting:
            self._create(self._waiting.popleft())
        else:
            self._idle += 1

    def _create(self, replica_set: ReplicaSet) -> None:
        """Create the missing pods one by one, as fast as the controller may. (The controller itself
        doubles its batches from one pod on, and stops at a failure, too.)
        """
        self._next = max(self._next, self.clock.now) + 1 / self.constants.creations
        self.clock.after(self._next - self.clock.now, lambda: self._request(replica_set))

    def _request(self, replica_set: ReplicaSet) -> None:
        began = self.clock.now

        def asked(times: int, answered: bool) -> None:
            if not answered:
                self._failed(replica_set)
            elif times < self.constants.asked:
                self.opas.ask(lambda answer: asked(times + 1, answer))
            else:
                created()

        def created() -> None:
            self.latencies.append(self.clock.now - began + self.constants.floor)
            heard = self.effective.get(replica_set.namespace)
            self.former += heard is not None and began < heard
            replica_set.missing, replica_set.failures = replica_set.missing - 1, 0
            if replica_set.missing:
                self._create(replica_set)
            else:
                self.delays.append(self.clock.now - replica_set.since)
                self._work()

        self.opas.ask(lambda answer: asked(1, answer))

    def _failed(self, replica_set: ReplicaSet) -> None:
        """Try the ReplicaSet again later, and go on with others."""
        constants = self.constants
        self.refused += 1
        wait = min(constants.first_retry * 2.0**replica_set.failures, constants.longest_retry)
        replica_set.failures += 1
        self.clock.after(wait, lambda: self._queue(replica_set))
        self._work()


def relabelling(constants: Constants, seed: int) -> Row:
    """Relabel namespaces one after another, and restart the workloads of each a moment later."""
    cluster = Cluster(constants, seed)
    choose, clock = cluster.choose, cluster.clock

    def label(namespace: int) -> None:
        lag = min(choose.expovariate(log(2) / constants.lag), constants.longest_lag)
        cluster.effective[namespace] = clock.now + lag
        for _ in range(constants.replica_sets):
            replica_set = ReplicaSet(namespace)
            clock.after(
                choose.expovariate(1 / constants.rollout),
                lambda it=replica_set: cluster.lack(it, constants.pods_of_set),  # type: ignore[misc]
            )

    for namespace in range(constants.relabelled):
        clock.after(namespace / constants.labels, lambda it=namespace: label(it))  # type: ignore[misc]
    clock.run()
    return _row(cluster, clock.now)


def outage(constants: Constants, seed: int, seconds: float, *, hung: bool = False) -> Row:
    """All OPAs are away for a while, during which pods of random ReplicaSets are replaced at a
    quarter of the rate that the controllers may create.
    """
    cluster = Cluster(constants, seed)
    choose, clock = cluster.choose, cluster.clock
    cluster.opas.away, cluster.opas.hung = True, hung
    rate = constants.creations / 4

    def replace() -> None:
        if clock.now < seconds:
            cluster.lack(ReplicaSet(-1), 1)
            clock.after(choose.expovariate(rate), replace)

    def back() -> None:
        cluster.opas.away = False

    clock.after(0.0, replace)
    clock.after(seconds, back)
    clock.run()
    return {**_row(cluster, clock.now), "afterReturn": clock.now - seconds}


def _row(cluster: Cluster, seconds: float) -> Row:
    """What happened in a cluster: counts, the latencies of pods in milliseconds, the times of the
    last pod and of the longest delay in seconds, and how busy the OPAs were in percent.
    """
    constants = cluster.constants
    milliseconds = [1000 * latency for latency in cluster.latencies]
    return {
        "pods": len(cluster.latencies),
        "refused": cluster.refused,
        "formerPool": cluster.former,
        "p50": _percentile(milliseconds, 50),
        "p99": _percentile(milliseconds, 99),
        "lastPod": seconds,
        "delay": max(cluster.delays),
        "load": 100 * cluster.opas.busy / seconds / constants.opas,
    }


def _percentile(values: list[float], percent: float) -> float:
    return report.percentile(values, percent) or 0.0


def _fleet(scenario: str, play: Callable[[int], Row], clusters: int, seed: int) -> Row:
    """The scenario in each cluster: counts over all, and of everything else the median and the
    worst cluster.
    """
    rows = [play(seed * 100_003 + number) for number in range(clusters)]
    summary: Row = {"scenario": scenario, "clusters": clusters}
    for key in rows[0]:
        values = [row[key] for row in rows]
        if isinstance(values[0], int):
            summary[key] = sum(values)
        else:
            summary[key] = round(_percentile(values, 50), 2)
            summary[f"{key}Worst"] = round(max(values), 2)
    return summary


@click.command()
@click.option("--clusters", type=click.IntRange(1), default=100, show_default=True)
@click.option("--creations", type=click.FloatRange(1), default=100, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(clusters: int, creations: float, seed: int) -> None:
    """Play all scenarios; write bench/simulation.json."""
    constants = Constants(creations=creations)
    scenarios: dict[str, Callable[[int], Row]] = {
        "1,000 namespaces relabelled": lambda each: relabelling(constants, each),
        "OPA away for 2 s": lambda each: outage(constants, each, 2.0),
        "OPA away for 60 s": lambda each: outage(constants, each, 60.0),
        "OPA away for 300 s": lambda each: outage(constants, each, 300.0),
        "OPA hung for 60 s": lambda each: outage(constants, each, 60.0, hung=True),
    }
    rows = [_fleet(name, play, clusters, seed) for name, play in scenarios.items()]
    (paths.root() / RESULTS).write_text(json.dumps(rows, indent=1) + "\n")
    columns = ("scenario", "pods", "refused", "formerPool", "p50", "p99", "lastPod", "delayWorst")
    output.rows(None, columns, rows)(output.console())


if __name__ == "__main__":
    main()

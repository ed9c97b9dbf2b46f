"""Measures the creation of pods: how long it takes, how many there are in a second, and what that
takes of the processors. All requests are dry runs, so that the cluster stays as it is."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from lab.bench import figures, processes
from lab.bench.figures import Row
from lab.bench.ground import DEADLINE, POOL, Ground
from lab.bench.load import Burst
from lab.bench.peers import Peer, for_several_clients

LATENCY = {1: 30, 8: 120, 32: 320}
"""The requests of one burst, by the number of clients."""
THROUGHPUT = (16, 800)
"""The clients of a burst that measures throughput, and its requests."""
_ENV = [{"name": name, "value": "x"} for name in ("REGION", "STAGE", "LOG_LEVEL")]
POD: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "app",
                "image": "registry.example.com/app:1.2.3",
                "env": _ENV,
                "resources": {
                    "requests": {"cpu": "100m", "memory": "128Mi"},
                    "limits": {"memory": "256Mi"},
                },
            }
        ]
    },
}


def until_placed(ground: Ground, peer: Peer) -> None:
    """Wait until the peer gives a pod its nodeSelector; what places no pods leaves it without one.
    Raises FairleadError.
    """
    expected = {"agentpool": POOL} if peer.places else None
    path = f"/api/v1/namespaces/{peer.namespace}/pods"

    def placed() -> bool:
        answer = (ground.second_api if peer.second else ground.api).request(
            "POST", path, POD, query={"dryRun": "All"}
        )
        if not answer.ok:
            raise FairleadError(answer.message)
        selector: dict[str, str] | None = answer.body["spec"].get("nodeSelector")
        return selector == expected

    waiting.until(placed, deadline=DEADLINE, what=f"{peer.name} places pods as it should")


def latency(
    ground: Ground, peers: Sequence[Peer], rounds: int, chosen: random.Random, *, share: float = 1
) -> Iterator[Row]:
    """The milliseconds that a pod takes, by the number of clients. `chosen` shuffles the peers in
    each round; a burst has this `share` of its requests.
    """
    for clients, most in LATENCY.items():
        requests = max(1, round(most * share))
        measured = peers if clients == 1 else for_several_clients(peers, ground.namespaces)
        bursts = _rounds(ground, measured, rounds, chosen, clients, requests, "latency")
        for peer in measured:
            own = [burst.milliseconds for burst in bursts[peer.name]]
            floor = [burst.milliseconds for burst in bursts[peer.floor]]
            every = [value for values in own for value in values]
            medians = [[figures.percentile(each, 50) for each in values] for values in (own, floor)]
            tails = [[figures.percentile(each, 90) for each in values] for values in (own, floor)]
            yield figures.row(
                "latency",
                peer.name,
                ground.namespaces,
                "creation of a pod",
                "ms",
                clients=clients,
                **{f"p{each}": round(figures.percentile(every, each), 3) for each in (50, 90, 99)},
                **figures.ratio(*medians).row(),
                ratio_of_p90=round(figures.ratio(*tails).median, 3),
                floor=peer.floor,
                rounds=rounds,
                requests=len(every),
                failed=sum(burst.failed for burst in bursts[peer.name]),
            )


def throughput(
    ground: Ground, peers: Sequence[Peer], rounds: int, chosen: random.Random, *, share: float = 1
) -> Iterator[Row]:
    """The pods in a second, and the seconds of processor time that every process takes for 1,000
    of them; see `latency` for the arguments.
    """
    clients, most = THROUGHPUT
    requests = max(1, round(most * share))
    spent: dict[str, list[dict[str, float]]] = defaultdict(list)
    bursts = _rounds(ground, peers, rounds, chosen, clients, requests, "throughput", spent)
    for peer in peers:
        own = [requests / burst.seconds for burst in bursts[peer.name]]
        floor = [requests / burst.seconds for burst in bursts[peer.floor]]
        every = [value for burst in bursts[peer.name] for value in burst.milliseconds]
        yield figures.row(
            "throughput",
            peer.name,
            ground.namespaces,
            "pods in a second",
            "1/s",
            clients=clients,
            p50=round(figures.percentile(own, 50), 1),
            p99_ms=round(figures.percentile(every, 99), 3),
            **figures.ratio(own, floor).row(),
            floor=peer.floor,
            rounds=rounds,
            requests=len(every),
            failed=sum(burst.failed for burst in bursts[peer.name]),
        )
        taken, least = (
            [sum(each.values()) / requests * 1000 for each in spent[name]]
            for name in (peer.name, peer.floor)
        )
        by_process = {
            name: round(sum(each[name] for each in spent[peer.name]) / rounds / requests * 1000, 3)
            for name in spent[peer.name][0]
        }
        yield figures.row(
            "processor",
            peer.name,
            ground.namespaces,
            "processor time for 1,000 pods",
            "s",
            p50=round(figures.percentile(taken, 50), 3),
            **figures.ratio(taken, least).row(),
            by_process={name: value for name, value in by_process.items() if value >= 0.005},
            floor=peer.floor,
            rounds=rounds,
        )


def _rounds(
    ground: Ground,
    peers: Sequence[Peer],
    rounds: int,
    chosen: random.Random,
    clients: int,
    requests: int,
    what: str,
    spent: dict[str, list[dict[str, float]]] | None = None,
) -> Mapping[str, list[Burst]]:
    """A burst for each peer in each round, in an order of its own; by peer. `spent` gets the
    processor time of each process during each burst.
    """
    bursts: dict[str, list[Burst]] = {peer.name: [] for peer in peers}
    for number in range(rounds + 1):  # the first one opens connections and fills caches
        ground.progress.update(f"{what}, {clients} clients", "sending", done=number, total=rounds)
        for peer in chosen.sample(peers, len(peers)):
            before = processes.processor(ground.pids()) if spent is not None else {}
            burst = ground.load.burst(peer.pods(ground), POD, clients=clients, requests=requests)
            if number == 0:
                continue
            bursts[peer.name].append(burst)
            if spent is not None:
                after = processes.processor(ground.pids())
                spent[peer.name].append(
                    {name: max(0.0, after[name] - before.get(name, 0.0)) for name in after}
                )
    ground.progress.finish(f"{what}, {clients} clients", "measured")
    return bursts

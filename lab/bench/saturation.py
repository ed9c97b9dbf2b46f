"""Measures the most pods in a second that a peer takes before they become slow: ever more clients
send them, until the 99th percentile passes a limit. All requests are dry runs."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Mapping, Sequence

from lab.bench import figures
from lab.bench.figures import Row
from lab.bench.ground import Ground
from lab.bench.load import Burst
from lab.bench.peers import Peer
from lab.bench.requests import POD

LIMIT = 100.0
"""The milliseconds that the 99th percentile may not pass."""
CLIENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""The clients of the bursts, in this order."""
_REQUESTS = 25
"""The requests of a burst, for each client: there are at least 2 times and at most 16 times as
many."""

Climb = Mapping[int, Burst]
"""The bursts of one round, by the number of clients."""


def most_pods(
    ground: Ground, peers: Sequence[Peer], rounds: int, chosen: random.Random
) -> Iterator[Row]:
    """The most pods in a second whose 99th percentile stays within the limit, with the clients that
    send them. `chosen` shuffles the peers in each round.

    Both are 0 if one client passes the limit already. There is no ratio if that is so of the floor.
    """
    climbs: dict[str, list[Climb]] = {peer.name: [] for peer in peers}
    for number in range(rounds):
        ground.progress.update("saturation", "sending", done=number, total=rounds)
        for peer in chosen.sample(peers, len(peers)):
            climbs[peer.name].append(_climb(ground, peer))
    ground.progress.finish("saturation", "measured")
    best = {name: _best(of_peer) for name, of_peer in climbs.items()}
    for peer in peers:
        clients, own = best[peer.name], climbs[peer.name]
        rates, floor = (_rates(climbs[name], best[name]) for name in (peer.name, peer.floor))
        yield figures.row(
            "saturation",
            peer.name,
            ground.namespaces,
            f"pods in a second, with a p99 of at most {LIMIT:g} ms",
            "1/s",
            clients=clients,
            p50=round(statistics.median(rates), 1),
            p99_ms=round(_p99(own, clients), 3) if clients else None,
            **(figures.ratio(rates, floor).row() if best[peer.floor] else {}),
            floor=peer.floor,
            rounds=rounds,
        )


def _climb(ground: Ground, peer: Peer) -> Climb:
    """Bursts of ever more clients, up to one that is slow without doubt: single requests are slow
    for other reasons, too, so that only those of all rounds say what the 99th percentile is.
    """
    bursts = {}
    for clients in CLIENTS:
        requests = _REQUESTS * min(max(2, clients), 16)
        burst = ground.load.burst(peer.pods(ground), POD, clients=clients, requests=requests)
        bursts[clients] = burst
        if figures.percentile(burst.milliseconds, 90) > LIMIT:
            break
    return bursts


def _best(climbs: Sequence[Climb]) -> int:
    """The clients that send the most pods in a second within the limit; 0 if none do."""
    reached = [clients for clients in CLIENTS if all(clients in climb for climb in climbs)]
    within = [clients for clients in reached if _p99(climbs, clients) <= LIMIT]
    return max(within, key=lambda each: statistics.median(_rates(climbs, each)), default=0)


def _p99(climbs: Sequence[Climb], clients: int) -> float:
    """The 99th percentile of the requests of all rounds, in milliseconds."""
    every = [value for climb in climbs for value in climb[clients].milliseconds]
    return figures.percentile(every, 99)


def _rates(climbs: Sequence[Climb], clients: int) -> list[float]:
    """The pods in a second, in each round."""
    if not clients:
        return [0.0 for _ in climbs]
    bursts = [climb[clients] for climb in climbs]
    return [len(burst.milliseconds) / burst.seconds for burst in bursts]

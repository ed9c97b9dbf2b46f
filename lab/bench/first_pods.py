"""Measures how long it takes until a new namespace's first pod is placed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

from fairlead.common import waiting
from fairlead.kube.clients import Objects
from fairlead.kube.responses import Response
from lab.bench import figures
from lab.bench.figures import Row
from lab.bench.ground import DEADLINE, POOL, Ground
from lab.bench.peers import Peer
from lab.bench.requests import POD


def first_pods(
    ground: Ground, peers: Sequence[Peer], rounds: int, chosen: random.Random
) -> Iterator[Row]:
    """The milliseconds from the request for a namespace to the answer that places its first pod.
    `chosen` shuffles the peers in each round.
    What admits the pod without its nodeSelector is `unplaced`; what refuses it is asked again.
    """
    taken: dict[str, list[float]] = {peer.name: [] for peer in peers}
    unplaced = dict.fromkeys(taken, 0)
    for number in range(rounds):
        ground.progress.update("first pods", "creating namespaces", done=number, total=rounds)
        for peer in chosen.sample(peers, len(peers)):
            name = f"{peer.namespace}-{number}"
            began = time.perf_counter()
            ground.namespace(name, {peer.label: POOL}, peer.annotations)
            api = ground.second_api if peer.second else ground.api

            def answered(name: str = name, api: Objects = api) -> Response | None:
                answer = api.request(
                    "POST", f"/api/v1/namespaces/{name}/pods", POD, query={"dryRun": "All"}
                )
                return answer if answer.ok else None

            answer = waiting.until(
                answered, deadline=DEADLINE, what=f"{peer.name} admits a pod", pause=0.001
            )
            taken[peer.name].append((time.perf_counter() - began) * 1000)
            if peer.places and "nodeSelector" not in answer.body["spec"]:
                unplaced[peer.name] += 1
    ground.progress.finish("first pods", "measured")
    for peer in peers:
        yield figures.times(
            "changes",
            peer.name,
            ground.namespaces,
            "from a new namespace to its first pod",
            "ms",
            taken[peer.name],
            **figures.ratio(taken[peer.name], taken[peer.floor]).row(),
            floor=peer.floor,
            unplaced=unplaced[peer.name],
        )

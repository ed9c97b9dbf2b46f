"""Measures how long changes take to have an effect: a new namespace, pushed policies, and the start
of an OPA."""

from __future__ import annotations

import functools
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from fairlead.checks.bench import figures
from fairlead.checks.bench.figures import Row
from fairlead.checks.bench.ground import DEADLINE, POOL, SETTINGS, Ground
from fairlead.checks.bench.peers import EMPTIEST, Peer
from fairlead.checks.bench.requests import POD
from fairlead.clusters.embedded import process_list
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.engines import enforcement
from fairlead.kube.rest import Response, Rest

_OWN = {**POD["spec"], "nodeSelector": {"agentpool": POOL, "disk": "ssd"}}
_SUITE = "changes"


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
            rest = ground.second_rest if peer.second else ground.rest

            def answered(name: str = name, rest: Rest = rest) -> Response | None:
                answer = rest.call(
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
        yield _row(
            peer.name,
            ground.namespaces,
            "from a new namespace to its first pod",
            "ms",
            taken[peer.name],
            **figures.ratio(taken[peer.name], taken[peer.floor]).row(),
            floor=peer.floor,
            unplaced=unplaced[peer.name],
        )


def pushes(ground: Ground, peer: Peer, rounds: int) -> Iterator[Row]:
    """The seconds from applying a push to the first decision by it."""
    taken = []
    for number in range(rounds):
        ground.progress.update("pushes", "pushing", done=number, total=rounds)
        merge = number % 2 == 0
        settings = SETTINGS.model_copy(update={"pod_selector": "merge" if merge else "reject"})
        clock = _Clock()
        with ThreadPoolExecutor(1) as pool:
            pushed = pool.submit(enforcement.push, ground.cluster, settings, progress=clock)
            waiting.until(
                functools.partial(_admits, ground, peer, expected=merge),
                deadline=DEADLINE,
                what="the pushed policies decide",
                pause=0.005,
            )
            effective = time.monotonic()
            pushed.result()
        taken.append(effective - clock.applied)
    ground.progress.finish("pushes", "measured")
    yield _row(peer.name, ground.namespaces, "from a push to its first decision", "s", taken)


def cold_starts(ground: Ground, rounds: int) -> Iterator[Row]:
    """The seconds from the end of an OPA, with its sidecar, to an OPA that is Ready, which has all
    policies and all namespaces by then; and of one with a policy from a file and no data.
    """

    def ready() -> None:
        (server,) = ground.cluster.opas()
        ground.cluster.wait_for(
            server.pod, f"{server.url.rstrip('/')}/health/ready", server.ca, deadline=DEADLINE
        )

    def answers() -> None:
        url = ground.opas["opa-emptiest"]
        ca = ground.tls / "ca.crt"
        ground.cluster.wait_for("opa-emptiest", f"{url}/health", ca, deadline=DEADLINE)

    starts = {
        "Fairlead opa": (["opa", "sync"], ready),
        EMPTIEST: (["opa-emptiest"], answers),
    }
    taken = {
        peer: [_seconds(ground, servers, up) for _ in range(rounds)]
        for peer, (servers, up) in starts.items()
    }
    for peer, values in taken.items():
        yield _row(
            peer,
            ground.namespaces,
            "cold start until Ready",
            "s",
            values,
            **figures.ratio(values, taken[EMPTIEST]).row(),
            floor=EMPTIEST,
        )


def _seconds(ground: Ground, names: Sequence[str], up: Callable[[], None]) -> float:
    before = {name: ground.cluster.servers()[name] for name in names}
    began = time.monotonic()
    for record in before.values():
        process_list.send(record["pid"], record["started"], signal.SIGKILL)

    def restarted() -> bool:
        now = ground.cluster.servers()
        return all(now[name]["started"] not in (None, before[name]["started"]) for name in names)

    waiting.until(restarted, deadline=DEADLINE, what=f"{', '.join(names)} run again", pause=0.01)
    up()
    return time.monotonic() - began


class _Clock(Progress):
    """Knows when a push is applied."""

    def __init__(self) -> None:
        self.applied = 0.0

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        if name == "policies" and state.startswith("applying"):
            self.applied = time.monotonic()


def _admits(ground: Ground, peer: Peer, *, expected: bool) -> bool:
    """Whether the answer is as expected to whether a pod may have a nodeSelector beside that of its
    pool.
    """
    path = f"/api/v1/namespaces/{peer.namespace}/pods"
    answer = ground.rest.call("POST", path, {**POD, "spec": _OWN}, query={"dryRun": "All"})
    return answer.ok == expected


def _row(
    peer: str, n: int, metric: str, unit: str, taken: Sequence[float], **further: object
) -> Row:
    values = {f"p{each}": round(figures.percentile(taken, each), 3) for each in (50, 99)}
    return figures.row(_SUITE, peer, n, metric, unit, **values, **further, rounds=len(taken))

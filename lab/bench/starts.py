"""Measures how long an OPA and its sidecar take to start."""

from __future__ import annotations

import functools
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from fairlead.clusters.embedded import process_list
from fairlead.common import waiting
from lab.bench import figures, processes
from lab.bench.figures import Row
from lab.bench.ground import DEADLINE, Ground
from lab.bench.peers import EMPTIEST

OPA, SIDECAR = "opa", "sync"
"""The names of the servers."""
_EMPTIEST = "opa-emptiest"
_SUITE = "changes"


def first_syncs(ground: Ground, rounds: int) -> Iterator[Row]:
    """The seconds from the start of a sidecar to an OPA that is Ready, which has all policies and
    all namespaces by then. OPA runs before, and has neither.
    """
    taken = []
    for number in range(rounds):
        ground.progress.update("first syncs", "starting", done=number, total=rounds)
        command = processes.command(ground.pids()[SIDECAR])
        ground.cluster.stop_server(SIDECAR)
        _restart(ground, [OPA])
        (server,) = ground.cluster.opas()
        ground.cluster.wait_for(OPA, f"{server.url}/health", server.ca, deadline=DEADLINE)

        def start(command: Sequence[str] = command) -> None:
            ground.cluster.start_server(SIDECAR, command)
            _until_ready(ground)

        taken.append(_seconds(start))
    ground.progress.finish("first syncs", "measured")
    yield figures.times(_SUITE, "Fairlead opa", ground.namespaces, "first sync", "s", taken)


def cold_starts(ground: Ground, rounds: int) -> Iterator[Row]:
    """The seconds from the end of an OPA, with its sidecar, to an OPA that is Ready, which has all
    policies and all namespaces by then; and of the emptiest OPA, if that is a peer.
    """
    starts = {"Fairlead opa": cold_start}
    if _EMPTIEST in ground.opas:
        starts[EMPTIEST] = _cold_start_of_emptiest
    taken = {
        peer: [_seconds(functools.partial(start, ground)) for _ in range(rounds)]
        for peer, start in starts.items()
    }
    for peer, values in taken.items():
        yield figures.times(
            _SUITE,
            peer,
            ground.namespaces,
            "cold start until Ready",
            "s",
            values,
            **(figures.ratio(values, taken[EMPTIEST]).row() if EMPTIEST in taken else {}),
            floor=EMPTIEST if EMPTIEST in taken else None,
        )


def cold_start(ground: Ground) -> None:
    """Restart OPA and its sidecar, and wait until OPA is Ready. Raises FairleadError."""
    _restart(ground, [OPA, SIDECAR])
    _until_ready(ground)


def _cold_start_of_emptiest(ground: Ground) -> None:
    _restart(ground, [_EMPTIEST])
    url, ca = ground.opas[_EMPTIEST], ground.tls / "ca.crt"
    ground.cluster.wait_for(_EMPTIEST, f"{url}/health", ca, deadline=DEADLINE)


def _until_ready(ground: Ground) -> None:
    (server,) = ground.cluster.opas()
    ready = f"{server.url}/health/ready"
    ground.cluster.wait_for(server.pod, ready, server.ca, deadline=DEADLINE)


def _restart(ground: Ground, names: Sequence[str]) -> None:
    """Kill these servers, which are then started again."""
    before = {name: ground.cluster.servers()[name] for name in names}
    for record in before.values():
        process_list.send(record["pid"], record["started"], signal.SIGKILL)

    def restarted() -> bool:
        now = ground.cluster.servers()
        return all(now[name]["started"] not in (None, before[name]["started"]) for name in names)

    waiting.until(restarted, deadline=DEADLINE, what=f"{', '.join(names)} run again", pause=0.01)


def _seconds(start: Callable[[], None]) -> float:
    began = time.monotonic()
    start()
    return time.monotonic() - began

"""Measures OPA's decisions alone, without a server, by `opa bench`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairlead.checks import decision_cost
from fairlead.checks.bench import figures
from fairlead.checks.bench.figures import Row
from fairlead.checks.benchmarks import Measurement
from fairlead.common.progress import Progress

FLOOR = "plain OPA look-up"
_PEERS = {FLOOR: "look_up", "emptiest OPA webhook": "emptiest", "classic OPA policy": "classic"}
"""The policies of bench/peers that are measured, by the peer."""
_MOST_FORMATTED = 10_000
"""The classic policy takes seconds for a request with more namespaces."""


def rows(sizes: Sequence[int], progress: Progress, *, every: bool = True) -> Iterator[Row]:
    """What each kind of request costs, with so many namespaces; unless `every`, that of a new pod
    and of a refusal, without declared pools. Ratios are to the bare look-up: that of the least
    times, as other work of the machine only adds to a time.
    """
    profiles = decision_cost.PROFILES if every else {"any pool": decision_cost.PROFILES["any pool"]}
    requests = list(decision_cost.REQUESTS) if every else ["a new pod", "a refused pod"]
    for size in sizes:
        floor = decision_cost.of_peer(_PEERS[FLOOR], size)
        yield _row(FLOOR, size, "a new pod", floor, floor)
        for peer, policy in _PEERS.items():
            if peer != FLOOR and (size <= _MOST_FORMATTED or policy != "classic"):
                progress.update("decisions", f"{peer}, {size} namespaces")
                cost = decision_cost.of_peer(policy, size)
                yield _row(peer, size, "a new pod", cost, floor)
        for profile, settings in profiles.items():
            for request in requests:
                progress.update("decisions", f"{request}, {size} namespaces")
                ((_, cost),) = decision_cost.costs(settings, size, [request])
                yield _row("Fairlead opa", size, request, cost, floor, settings=profile)
    progress.finish("decisions", "measured")


def _row(
    peer: str, size: int, request: str, cost: Measurement, floor: Measurement, **further: str
) -> Row:
    return figures.row(
        "decision",
        peer,
        size,
        request,
        "us",
        **further,
        least=round(cost.least / 1000, 1),
        p50=round(cost.p50 / 1000, 1),
        p99=round(cost.p99 / 1000, 1),
        ratio_to_floor=round(cost.least / floor.least, 2),
        allocations=cost.allocations,
        ratio_of_allocations=round(cost.allocations / floor.allocations, 2),
        floor=FLOOR,
    )

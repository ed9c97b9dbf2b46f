"""Measures OPA's decisions alone, without a server, by `opa bench`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from fairlead.common.progress import Progress
from fairlead.settings.models import Settings
from lab import decision_cost
from lab.bench import figures
from lab.bench.figures import Row
from lab.bench.peers import EMPTIEST, PEERS
from lab.benchmarks import Measurement

FLOOR = "plain OPA look-up"
_POLICIES = {FLOOR: "look_up", EMPTIEST: "emptiest", "classic OPA policy": "classic"}
"""The policies of bench/peers that are measured, by the peer."""
_MOST = 10_000
"""A peer whose time grows takes seconds for a request with more namespaces."""
_ROUNDS = 3
_IN_ROUNDS = "any pool"
"""The profile that is measured in rounds, if there are several sizes: rounds of all would take
three times as long."""

_Round = Mapping[int, Measurement]
"""What one request costs, by the number of namespaces."""


def rows(sizes: Sequence[int], progress: Progress, *, every: bool = True) -> Iterator[Row]:
    """What each kind of request costs, with so many namespaces; unless `every`, that of a new pod
    and of a refusal, without declared pools. Ratios to the floor are to the bare look-up: that of
    the least times, as other work of the machine only adds to a time.
    """
    profiles = decision_cost.PROFILES if every else {"any pool": decision_cost.PROFILES["any pool"]}
    requests = list(decision_cost.REQUESTS) if every else ["a new pod", "a refused pod"]
    floors = _in_turn(FLOOR, _of_peer(FLOOR), sizes, 1, progress)
    yield from _rows(FLOOR, "a new pod", floors, floors)
    growing = {peer.name for peer in PEERS if peer.grows}
    for peer in _POLICIES:
        if peer != FLOOR:
            possible = [size for size in sizes if size <= _MOST or peer not in growing]
            rounds = _in_turn(peer, _of_peer(peer), possible, 1, progress)
            yield from _rows(peer, "a new pod", rounds, floors)
    for profile, settings in profiles.items():
        for request in requests:
            measure = _of_request(settings, request)
            rounds = _in_turn(request, measure, sizes, _rounds(profile, sizes), progress)
            yield from _rows("Fairlead opa", request, rounds, floors, settings=profile)
    progress.finish("decisions", "measured")


def _rounds(profile: str, sizes: Sequence[int]) -> int:
    """How often requests with this profile are measured."""
    return _ROUNDS if profile == _IN_ROUNDS and len(sizes) > 1 else 1


def _of_peer(peer: str) -> Callable[[int], Measurement]:
    return lambda size: decision_cost.of_peer(_POLICIES[peer], size)


def _of_request(settings: Settings, request: str) -> Callable[[int], Measurement]:
    def measure(size: int) -> Measurement:
        ((_, cost),) = decision_cost.costs(settings, size, [request])
        return cost

    return measure


def _in_turn(
    what: str,
    measure: Callable[[int], Measurement],
    sizes: Sequence[int],
    rounds: int,
    progress: Progress,
) -> list[_Round]:
    """So many rounds, in each of which all sizes are measured one after the other: the machine does
    the same beside all of them.
    """
    measured: list[_Round] = []
    for _ in range(rounds):
        costs = {}
        for size in sizes:
            progress.update("decisions", f"{what}, {size} namespaces")
            costs[size] = measure(size)
        measured.append(costs)
    return measured


def _rows(
    peer: str, request: str, rounds: Sequence[_Round], floors: Sequence[_Round], **further: str
) -> Iterator[Row]:
    """A row for each number of namespaces."""
    for size in rounds[0]:
        cost, floor = _of_all(rounds, size), _of_all(floors, size)
        yield figures.row(
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
            ratio_to_fewest=_ratio_to_fewest(rounds, size),
            allocations=cost.allocations,
            ratio_of_allocations=round(cost.allocations / floor.allocations, 2),
            floor=FLOOR,
            rounds=len(rounds),
        )


def _of_all(rounds: Sequence[_Round], size: int) -> Measurement:
    """The least time of all rounds, and the medians of their other times."""
    costs = [costs[size] for costs in rounds]
    return Measurement(
        min(cost.allocations for cost in costs),
        min(cost.least for cost in costs),
        statistics.median(cost.p50 for cost in costs),
        statistics.median(cost.p99 for cost in costs),
    )


def _ratio_to_fewest(rounds: Sequence[_Round], size: int) -> float | None:
    """How many times as long the median takes as with the fewest namespaces in the same round, in
    the median of the rounds; None for a single round, which says too little.
    """
    if len(rounds) == 1:
        return None
    return round(statistics.median(costs[size].p50 / costs[min(costs)].p50 for costs in rounds), 3)

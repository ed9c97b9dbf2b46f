"""Measures OPA's decision on which clusters a workload runs, without a server, by `opa bench`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from fairlead.common.progress import Progress
from lab import decision_cost, placement_cost
from lab.bench import figures
from lab.bench.decisions import FLOOR
from lab.bench.figures import Row
from lab.placement_cost import JURISDICTIONS

_CLUSTERS = 500
_FEW_JURISDICTIONS = 3
_ROUNDS = 3


def rows(progress: Progress) -> Iterator[Row]:
    """What the decision costs, with few and many customers, each with few or all jurisdictions. The
    ratio to the floor is the median over the rounds, in each of which the bare look-up is measured
    beside it.
    """
    for jurisdictions in (_FEW_JURISDICTIONS, len(JURISDICTIONS)):
        for customers in (20, 2_000):
            what = f"{customers} customers, {jurisdictions} of {len(JURISDICTIONS)} jurisdictions"
            progress.update("placement", what)
            costs = [
                (
                    placement_cost.decision(_CLUSTERS, customers, jurisdictions),
                    decision_cost.of_peer("look_up", namespaces=10),
                )
                for _ in range(_ROUNDS)
            ]
            yield figures.row(
                "placement",
                "Fairlead opa",
                _CLUSTERS,
                what,
                "us",
                least=round(min(cost.least for cost, _ in costs) / 1000, 1),
                p50=round(statistics.median(cost.p50 for cost, _ in costs) / 1000, 1),
                p99=round(statistics.median(cost.p99 for cost, _ in costs) / 1000, 1),
                **figures.ratio(
                    [cost.p50 for cost, _ in costs], [look_up.p50 for _, look_up in costs]
                ).row(),
                allocations=min(cost.allocations for cost, _ in costs),
                floor=FLOOR,
                rounds=_ROUNDS,
            )
    progress.finish("placement", "measured")

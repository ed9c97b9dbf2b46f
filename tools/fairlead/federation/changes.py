"""Says which replicas a new decision moves, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlead.analysis.place import Placement

Replicas = Mapping[str, Mapping[str, int]]
"""The replicas of workloads in each cluster, by the titles of the workloads."""


@dataclass(frozen=True)
class Change:
    """Replicas of a workload that move. `source` is None for those that are new, `target` for those
    that end. The costs are those of the whole workload, an hour; None if they are not known.
    """

    title: str
    source: str | None
    target: str | None
    replicas: int
    cost_before: float | None
    cost_after: float | None


def between(
    running: Replicas, costs: Mapping[str, Mapping[str, float]], placements: Sequence[Placement]
) -> list[Change]:
    """What the placements change of what is `running`, in their order. Workloads with errors stay.

    `costs` are earlier costs of all replicas in a cluster, by titles and clusters. They count where
    the placements know none, because the cluster is excluded now.
    """
    changes = []
    for placement in placements:
        if placement.errors:
            continue
        before = running.get(placement.title, {})
        known = {**costs.get(placement.title, {}), **placement.costs}
        changes += [
            Change(placement.title, source, target, count, _cost(before, known), placement.cost)
            for source, target, count in _flows(before, placement.replicas)
        ]
    return changes


def _flows(
    before: Mapping[str, int], after: Mapping[str, int]
) -> list[tuple[str | None, str | None, int]]:
    """From where to where how many replicas go. Each source is paired with the first targets by
    name.
    """
    names = sorted(before.keys() | after.keys())
    more = {name: after.get(name, 0) - before.get(name, 0) for name in names}
    missing = {name: count for name, count in more.items() if count > 0}
    flows: list[tuple[str | None, str | None, int]] = []
    for source in names:
        surplus = -more[source]
        for target in missing:
            if (count := min(surplus, missing[target])) > 0:
                flows.append((source, target, count))
                missing[target] -= count
                surplus -= count
        if surplus > 0:
            flows.append((source, None, surplus))
    return flows + [(None, target, count) for target, count in missing.items() if count]


def _cost(replicas: Mapping[str, int], costs: Mapping[str, float]) -> float | None:
    """What an hour of these replicas costs; None if there are none, or a cost is missing."""
    running = {name: count for name, count in replicas.items() if count}
    if not running or not running.keys() <= costs.keys():
        return None
    number = sum(running.values())
    return sum(costs[name] * count / number for name, count in running.items())

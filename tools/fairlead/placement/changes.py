"""Says which replicas a new decision moves, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlead.placement.placements import Placement

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
    """What the placements change of what is `running`, in their order. Workloads with errors stay,
    and so do Jobs, as `stays` says.

    `costs` are earlier costs of all replicas in a cluster, by titles and clusters. They count where
    the placements know none, because the cluster is excluded now.
    """
    changes = []
    for placement in placements:
        before = running.get(placement.title, {})
        if stays(placement, before):
            continue
        all_costs = {**costs.get(placement.title, {}), **placement.costs}
        changes += [
            Change(placement.title, source, target, count, _cost(before, all_costs), placement.cost)
            for source, target, count in _flows(before, after(placement, before))
        ]
    return changes


def stays(placement: Placement, before: Mapping[str, int]) -> bool:
    """Whether the workload keeps the replicas that it has: it has errors, or it is a Job that was
    divided otherwise before, which is not divided again. A Job that has ended has 0 replicas.
    """
    divided = placement.replicas
    return bool(placement.errors) or (
        _is_job(placement)
        and any(
            name not in divided or count not in (0, divided[name]) for name, count in before.items()
        )
    )


def after(placement: Placement, before: Mapping[str, int]) -> Mapping[str, int]:
    """The replicas of each cluster once the decision is carried out. A Job is never done again
    where it is or has ended.
    """
    if stays(placement, before):
        return before
    return {**placement.replicas, **before} if _is_job(placement) else placement.replicas


def staying(running: Replicas, placements: Sequence[Placement]) -> list[str]:
    """A sentence about each Job that runs in clusters that its decision no longer names."""
    return [
        f"{placement.title} stays in {name}, as a Job is not moved ({name}: "
        f"{placement.explanation.get(name, 'the data have no such cluster')})"
        for placement in placements
        if _is_job(placement) and not placement.errors
        for name, count in sorted(running.get(placement.title, {}).items())
        if count and name not in placement.replicas
    ]


def _is_job(placement: Placement) -> bool:
    return bool(placement.document.value["kind"] == "Job")


def _flows(
    before: Mapping[str, int], after: Mapping[str, int]
) -> list[tuple[str | None, str | None, int]]:
    """From where to where how many replicas go. Each source is paired with the first targets by
    name.
    """
    names = sorted(before.keys() | after.keys())
    growth = {name: after.get(name, 0) - before.get(name, 0) for name in names}
    missing = {name: count for name, count in growth.items() if count > 0}
    flows: list[tuple[str | None, str | None, int]] = []
    for source in names:
        surplus = -growth[source]
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

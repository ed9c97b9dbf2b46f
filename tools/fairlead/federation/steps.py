"""The steps of a move between clusters: how many replicas each cluster has next. Pure functions of
counts, which are replicas by the names of the clusters."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

Counts = Mapping[str, int]
SHARE = 0.25
"""How much of a workload's replicas moves at once by default, as a Deployment replaces its pods."""


def at_once(asked: int, share: float) -> int:
    """How many of the `asked` replicas may move at once: the share, rounded down, but one at
    least.
    """
    return max(1, int(asked * Fraction(str(share))))


def sources(counts: Counts, target: Counts) -> list[str]:
    """The clusters that have more than their target, and those that should have none; sorted."""
    return sorted(
        name for name, count in counts.items() if name not in target or count > target[name]
    )


def grown(counts: Counts, target: Counts, asked: int, at_once: int) -> dict[str, int]:
    """The counts once clusters have got what they lack, as far as all clusters together have at
    most `at_once` replicas more than `asked`. No count shrinks.

    A cluster of the target that has nothing, and gets nothing in this step, is left out.
    """
    room = max(0, asked + at_once - sum(counts.values()))
    larger = dict(counts)
    for name in sorted(target):
        more = min(room, max(0, target[name] - counts.get(name, 0)))
        if more or not target[name]:
            larger[name] = counts.get(name, 0) + more
        room -= more
    return larger


def shrunk(counts: Counts, target: Counts, asked: int, ready: Counts) -> dict[str, int]:
    """The counts once clusters have lost what they have beyond their target, as far as all clusters
    together keep `asked` replicas. The clusters that have the most unready replicas lose first.
    """
    spare = max(0, sum(counts.values()) - asked)
    smaller = dict(counts)
    for name in sorted(sources(counts, target), key=lambda each: ready.get(each, 0) - counts[each]):
        less = min(spare, counts[name] - target.get(name, 0))
        smaller[name] -= less
        spare -= less
    return smaller

"""Divides the replicas of a workload among clusters by their weights."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction


def divided(replicas: int, weights: Mapping[str, float]) -> dict[str, int]:
    """The replicas of each cluster, by the largest remainder: each cluster gets its share, rounded
    down, and what is left goes to those with the largest fractions; of equal ones, to the first by
    name.

    `weights` are above 0. The replicas of all clusters together are `replicas`, if there is any
    cluster.
    """
    exact = {name: Fraction(str(weight)) for name, weight in sorted(weights.items())}
    total = sum(exact.values())
    shares = {name: replicas * weight / total for name, weight in exact.items()}
    counts = {name: int(share) for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: counts[name] - shares[name])
    remainder = replicas - sum(counts.values()) if counts else 0
    for name in by_remainder[:remainder]:
        counts[name] += 1
    return counts

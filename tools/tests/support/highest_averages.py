"""Webster's method as Karmada has it, one replica after the other: an oracle for the policies."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction


def divided(number: int, weights: Mapping[str, float]) -> dict[str, int]:
    """What each name gets of `number`. Of equals, one that has fewer comes first, then the first by
    name.
    """
    exact = {name: Fraction(str(weight)) for name, weight in sorted(weights.items())}
    if len(exact) == 1:
        return dict.fromkeys(exact, number)
    counts = dict.fromkeys(exact, 0)
    for _ in range(number if counts else 0):
        winner = min(
            counts, key=lambda name: (-exact[name] / (2 * counts[name] + 1), counts[name], name)
        )
        counts[winner] += 1
    return counts

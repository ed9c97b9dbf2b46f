"""Replicas are divided by the largest remainder."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.placement.replica_division import divided


@pytest.mark.parametrize(
    ("replicas", "weights", "counts"),
    [
        (10, {"a": 1, "b": 1}, {"a": 5, "b": 5}),
        (10, {"a": 2, "b": 1, "c": 0.5}, {"a": 6, "b": 3, "c": 1}),
        (5, {"b": 1, "a": 1}, {"a": 3, "b": 2}),
        (1, {"c": 1, "b": 1, "a": 1}, {"a": 1, "b": 0, "c": 0}),
        (0, {"a": 1}, {"a": 0}),
        (3, {"a": 0.1, "b": 0.2}, {"a": 1, "b": 2}),
        (7, {"a": 1_000_000, "b": 0.000001}, {"a": 7, "b": 0}),
        (4, {}, {}),
    ],
)
def test_examples(replicas: int, weights: dict[str, float], counts: dict[str, int]) -> None:
    assert divided(replicas, weights) == counts


@given(
    st.integers(0, 1_000_000),
    st.dictionaries(st.text(max_size=3), st.floats(0.000001, 1_000_000), min_size=1, max_size=9),
)
def test_all_are_divided_and_each_cluster_gets_its_share_but_for_one(
    replicas: int, weights: dict[str, float]
) -> None:
    counts = divided(replicas, weights)
    assert sum(counts.values()) == replicas
    assert counts == divided(replicas, dict(reversed(weights.items())))
    total = sum(Fraction(str(weight)) for weight in weights.values())
    for name, weight in weights.items():
        assert abs(counts[name] - replicas * Fraction(str(weight)) / total) < 1

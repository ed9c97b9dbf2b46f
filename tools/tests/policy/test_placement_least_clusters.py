"""Weights that a workload asks for give enough clusters a replica, and none too many, whatever
divides."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction

import highest_averages
from placement_answers import answers

WEIGHTS = (0.1, 0.2, 1, 3, 10)
NAMES = ("a", "b", "c", "d")
Weights = Mapping[str, float]


def by_webster(replicas: int, weights: Weights) -> dict[str, int]:
    """The division that Karmada makes, with equal ones in the order of the weights."""
    counts = dict.fromkeys(weights, 0)
    for _ in range(replicas):
        name = max(weights, key=lambda each: exact(weights[each]) / (2 * counts[each] + 1))
        counts[name] += 1
    return counts


def by_remainder(replicas: int, weights: Weights) -> dict[str, int]:
    """Each share rounded down, and the rest to the largest remainders."""
    total = sum(map(exact, weights.values()))
    shares = {name: replicas * exact(weight) / total for name, weight in sorted(weights.items())}
    counts = {name: int(share) for name, share in shares.items()}
    left = replicas - sum(counts.values())
    for name in sorted(shares, key=lambda each: counts[each] - shares[each])[:left]:
        counts[name] += 1
    return counts


def to_the_largest(replicas: int, weights: Weights) -> dict[str, int]:
    """Each share rounded down, and the rest to the largest of those that are not whole."""
    total = sum(map(exact, weights.values()))
    shares = {name: replicas * exact(weight) / total for name, weight in weights.items()}
    counts = {name: int(share) for name, share in shares.items()}
    partly = [name for name in shares if shares[name] > counts[name]]
    left = replicas - sum(counts.values())
    for name in sorted(partly, key=lambda each: -shares[each])[:left]:
        counts[name] += 1
    return counts


DIVISIONS: tuple[Callable[[int, Weights], dict[str, int]], ...] = (
    highest_averages.divided,
    by_webster,
    by_remainder,
    to_the_largest,
)


def exact(number: float) -> Fraction:
    return Fraction(str(number))


def question(replicas: int, weights: Weights, **says: int) -> dict[str, object]:
    annotations = {
        "customer": "acme",
        **{key.replace("_", "-"): value for key, value in says.items()},
        "replica-set-preferences": {
            "clusters": {name: {"weight": weight} for name, weight in weights.items()}
        },
    }
    cluster = {"jurisdiction": "de", "location": "on-prem"}
    return {
        "input": {
            "resource": {
                "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "acme", "annotations": annotations},
                "spec": {"replicas": replicas},
            }
        },
        "placement": {
            "clusters": dict.fromkeys(NAMES, cluster),
            "customers": {"acme": {"jurisdictions": ["de"]}},
        },
        "namespaces": {},
    }


def asked(*, numbers: tuple[int, ...]) -> list[tuple[int, Weights]]:
    return [
        (replicas, dict(zip(NAMES, weights, strict=False)))
        for number in numbers
        for weights in itertools.combinations_with_replacement(
            sorted(WEIGHTS, reverse=True), number
        )
        for replicas in (2, 3, 5, 10)
    ]


def test_an_answer_without_errors_has_enough_clusters_by_each_division() -> None:
    questions = [
        (replicas, weights, least)
        for replicas, weights in asked(numbers=(2, 3, 4))
        for least in range(2, min(len(weights), replicas) + 1)
    ]
    answered = answers(
        [question(replicas, weights, min_clusters=least) for replicas, weights, least in questions]
    )
    refused = 0
    for (replicas, weights, least), answer in zip(questions, answered, strict=True):
        fewest = min(sum(map(bool, divide(replicas, weights).values())) for divide in DIVISIONS)
        if answer["errors"]:
            assert answer["errors"].keys() == {"spread"}
            refused += 1
        else:
            assert fewest >= least, (replicas, least, weights)
        if len(set(weights.values())) == 1:
            assert not answer["errors"], (replicas, least, weights)
    assert 0 < refused < len(questions)


def test_an_answer_without_errors_has_no_cluster_with_too_many_by_each_division() -> None:
    questions = [
        (replicas, weights, most)
        for replicas, weights in asked(numbers=(2, 4))
        for most in (1, replicas // 2, replicas - 1)
        if most
    ]
    answered = answers(
        [
            question(replicas, weights, max_replicas_per_cluster=most)
            for replicas, weights, most in questions
        ]
    )
    refused = 0
    for (replicas, weights, most), answer in zip(questions, answered, strict=True):
        divisions = (highest_averages.divided, by_remainder)
        largest = max(max(divide(replicas, weights).values()) for divide in divisions)
        if answer["errors"]:
            assert answer["errors"].keys() == {"spread"}
            refused += 1
        else:
            assert largest <= most, (replicas, most, weights)
    assert 0 < refused < len(questions)

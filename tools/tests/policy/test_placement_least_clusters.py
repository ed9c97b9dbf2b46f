"""Weights that a workload asks for give enough clusters a replica, whatever divides."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction

from placement_answers import answers

from fairlead.placement import replica_division

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
    replica_division.divided,
    by_webster,
    to_the_largest,
)


def exact(number: float) -> Fraction:
    return Fraction(str(number))


def question(replicas: int, least: int, weights: Weights) -> dict[str, object]:
    annotations = {
        "customer": "acme",
        "min-clusters": least,
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


def test_an_answer_without_errors_has_enough_clusters_by_each_division() -> None:
    asked = [
        (replicas, least, dict(zip(NAMES, weights, strict=False)))
        for number in (2, 3, 4)
        for weights in itertools.combinations_with_replacement(
            sorted(WEIGHTS, reverse=True), number
        )
        for replicas in (2, 3, 5, 10)
        for least in range(2, min(number, replicas) + 1)
    ]
    refused = 0
    for (replicas, least, weights), answer in zip(
        asked, answers([question(*each) for each in asked]), strict=True
    ):
        fewest = min(sum(map(bool, divide(replicas, weights).values())) for divide in DIVISIONS)
        if answer["errors"]:
            assert answer["errors"].keys() == {"spread"}
            refused += 1
        else:
            assert fewest >= least, (replicas, least, weights)
        if len(set(weights.values())) == 1:
            assert not answer["errors"], (replicas, least, weights)
    assert 0 < refused < len(asked)

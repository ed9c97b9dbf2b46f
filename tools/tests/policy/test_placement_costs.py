"""Divisions of replicas among clusters cost as little as those that brute force finds."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from placement_answers import answers

CLUSTERS = ("a", "b", "c", "d")
ANNOTATION = "federation.kubernetes.io/replica-set-preferences"
EXAMPLES = int(os.environ.get("FAIRLEAD_PLACEMENT_EXAMPLES", "300"))
"""About eight seconds of work. Set the variable to try more: 2,000 take about a minute."""
BATCH = 100
ROUNDING = Fraction(1, 10**12)
"""OPA rounds products of fractions at 64 bits, so costs that differ by less are equal for it."""

prices = st.sampled_from([0, 0.01, 0.02, 0.021, 0.03, 0.1, 1, 1.9, 7])
spreads = st.integers(1, 4) | st.sampled_from(["10%", "34%", "50%", "100%"])
weights = st.sampled_from([1, 2, 3, 0.5, 7])


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    """A workload, and the data of up to four clusters where it may run."""
    names = CLUSTERS[: draw(st.integers(1, len(CLUSTERS)))]
    clusters = {
        name: {
            "jurisdiction": "de",
            "location": "on-prem",
            "price": {"cpu": draw(prices), "memory": draw(prices)},
        }
        for name in names
    }
    annotations: dict[str, Any] = {"customer": "acme"}
    if draw(st.booleans()):
        annotations["min-clusters"] = str(draw(st.integers(1, 3)))
    if draw(st.booleans()):
        annotations["max-replicas-per-cluster"] = str(draw(spreads))
    if draw(st.booleans()):
        flows = {"applications": {"acme/db": draw(prices)}, "clusters": {"e": draw(prices)}}
        annotations["traffic"] = json.dumps(flows)
    if draw(st.booleans()):
        running = draw(st.dictionaries(st.sampled_from([*names, "gone"]), weights, min_size=1))
        annotations[ANNOTATION] = {
            "clusters": {name: {"weight": running[name]} for name in running}
        }
    transfer = {name: {to: draw(prices) for to in (*CLUSTERS, "e")} for name in names}
    requests = {
        "cpu": draw(st.sampled_from(["250m", "1", "3"])),
        "memory": draw(st.sampled_from(["128Mi", "1Gi", "1G"])),
    }
    chosen = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "minClusters": st.integers(1, 3),
                "maxReplicasPerCluster": spreads,
                "moveThreshold": st.sampled_from([0, 0.1, 0.5, 0.99]),
            },
        )
    )
    pod = {"containers": [{"resources": {"requests": requests}}]}
    return {
        "input": {
            "resource": {
                "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "acme", "annotations": annotations},
                "spec": {"replicas": draw(st.integers(1, 6)), "template": {"spec": pod}},
            }
        },
        "placement": {
            "clusters": clusters,
            "customers": {"acme": {"jurisdictions": ["de"]}},
            "transfer": transfer,
            "applications": {
                "acme/db": {"clusters": draw(st.sampled_from([["a"], ["a", "b"], ["d"]]))}
            },
            "settings": chosen,
        },
        "namespaces": {},
    }


class World:
    """What a question says, read independently of the policies. Costs are dollars an hour."""

    def __init__(self, question: Mapping[str, Any]) -> None:
        resource, self.placement = question["input"]["resource"], question["placement"]
        self.says = resource["metadata"]["annotations"]
        self.replicas: int = resource["spec"]["replicas"]
        self.names: list[str] = sorted(self.placement["clusters"])
        (container,) = resource["spec"]["template"]["spec"]["containers"]
        self.requests = container["resources"]["requests"]
        self.settings = self.placement["settings"]
        self.threshold = exact(self.settings.get("moveThreshold", 0.1))

    @property
    def least(self) -> int:
        """At least so many clusters."""
        if "min-clusters" in self.says:
            return int(self.says["min-clusters"])
        return min(int(self.settings.get("minClusters", 1)), self.replicas)

    @property
    def most(self) -> int:
        """At most so many replicas in a cluster."""
        default = self.settings.get("maxReplicasPerCluster", self.replicas)
        text = str(self.says.get("max-replicas-per-cluster", default))
        if text.endswith("%"):
            return math.ceil(self.replicas * Fraction(text[:-1]) / 100)
        return int(text)

    def running(self, name: str) -> int:
        """How many replicas run in a cluster, at most."""
        clusters = self.says.get(ANNOTATION, {"clusters": {}})["clusters"]
        if name not in clusters:
            return 0
        total = sum(exact(each["weight"]) for each in clusters.values())
        return math.ceil(self.replicas * exact(clusters[name]["weight"]) / total)

    def cost_of_one(self, name: str) -> Fraction:
        """What one replica costs in a cluster, with its share of the traffic."""
        cpu = {"250m": Fraction(1, 4)}.get(self.requests["cpu"]) or Fraction(self.requests["cpu"])
        units = {"128Mi": 128 * 2**20, "1Gi": 2**30, "1G": 10**9}
        memory = Fraction(units[self.requests["memory"]], 2**30)
        price = self.placement["clusters"][name]["price"]
        transfer = self.placement["transfer"][name]
        flows = json.loads(self.says.get("traffic", '{"applications": {}, "clusters": {}}'))
        reached = [
            *(
                (self.placement["applications"][application]["clusters"], gib)
                for application, gib in flows["applications"].items()
            ),
            *(([cluster], gib) for cluster, gib in flows["clusters"].items()),
        ]
        flowing = [
            exact(gib) * min(exact(0 if to == name else transfer[to]) for to in clusters)
            for clusters, gib in reached
        ]
        traffic = sum(flowing, Fraction(0))
        return cpu * exact(price["cpu"]) + memory * exact(price["memory"]) + traffic / self.replicas

    def divisions(self) -> Iterator[dict[str, int]]:
        """All divisions that the constraints allow."""
        for counts in itertools.product(
            range(min(self.most, self.replicas) + 1), repeat=len(self.names)
        ):
            if sum(counts) == self.replicas and sum(map(bool, counts)) >= self.least:
                yield dict(zip(self.names, counts, strict=True))

    def cost(self, division: Mapping[str, int], threshold: Fraction = Fraction(0)) -> Fraction:
        """What a division costs. Replicas that stay are cheaper by the threshold."""
        return sum(
            (
                self.cost_of_one(name) * (count - threshold * min(count, self.running(name)))
                for name, count in division.items()
            ),
            Fraction(0),
        )


def exact(number: float) -> Fraction:
    return Fraction(str(number))


def collected(examples: int) -> list[dict[str, Any]]:
    """Questions, so that one process of OPA can answer all of them."""
    asked: list[dict[str, Any]] = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(questions())
    def collect(question: dict[str, Any]) -> None:
        asked.append(question)

    collect()
    return asked


def batched(asked: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    """Few enough at once for the time that a process of OPA has."""
    return (asked[start : start + BATCH] for start in range(0, len(asked), BATCH))


def division_of(answer: Mapping[str, Any]) -> dict[str, int]:
    preferences = answer["annotations"]["replica-set-preferences"]["clusters"]
    return {name: preference["weight"] for name, preference in preferences.items()}


def deciding_again(question: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The same question about the workload with the annotation of the answer."""
    resource = question["input"]["resource"]
    text = json.dumps(answer["annotations"]["replica-set-preferences"], sort_keys=True)
    annotations = {**resource["metadata"]["annotations"], ANNOTATION: text}
    metadata = {**resource["metadata"], "annotations": annotations}
    return {**question, "input": {"resource": {**resource, "metadata": metadata}}}


def test_no_division_costs_less_and_the_next_decision_is_the_same() -> None:
    asked = collected(EXAMPLES)
    decided = [answer for batch in batched(asked) for answer in answers(batch)]
    following = [deciding_again(*each) for each in zip(asked, decided, strict=True)]
    again = [answer for batch in batched(following) for answer in answers(batch)]
    for question, answer, next_answer in zip(asked, decided, again, strict=True):
        world = World(question)
        divisions = list(world.divisions())
        if not divisions:
            assert answer["errors"].keys() == {"spread"}, question
            assert division_of(answer) == {}
            continue
        assert answer["errors"] == {}, question
        division = division_of(answer)
        assert {**dict.fromkeys(world.names, 0), **division} in divisions, question
        assert min(division.values()) > 0
        best = min(world.cost(each, world.threshold) for each in divisions)
        assert best <= world.cost(division, world.threshold) <= best * (1 + ROUNDING), question
        cheapest = min(map(world.cost, divisions))
        assert world.cost(division) * (1 - world.threshold) <= cheapest * (1 + ROUNDING), question
        assert division_of(next_answer) == division, question

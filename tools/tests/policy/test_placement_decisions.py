"""Placement over clusters answers whatever it is asked, with whatever data, and fails closed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from placement_answers import MODULES, answers

from fairlead.common import files, paths
from fairlead.opa import cli

SCENARIO = files.read_yaml(paths.root() / "testdata" / "placement" / "data.yaml")[0].value

odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "acme", "de", "low", "8", "1Gi", "NaN", '["a"]', "{"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "acme", "clusters", "weight", "cpu"]), inner)
    ),
    max_leaves=6,
)


values = odd | st.sampled_from(
    [
        *("fr", "public", "on-prem", ["pci"], ["de", "fr"], ["a", "b"], ["z"], [], "3", "500m", 7),
        *({"clusters": {"a": {"weight": 2}}}, {"clusters": {"b": {"weight": -1}}}),
        *('["b"]', '{"clusters": {"a": {"weight": 0.5}}}', {"cpu": "2"}, {"cpu": -1}, "Job", "Pod"),
        *([{"key": "spot", "effect": "NoSchedule"}], [{"key": "spot", "operator": "Exists"}]),
    ]
)
CLUSTER = {
    "jurisdiction": "de",
    "location": "on-prem",
    "certifications": ["pci"],
    "cordoned": False,
    "taints": [],
    "price": {"cpu": 1, "memory": 0.5},
    "capacity": {"cpu": "8", "memory": "8Gi"},
}
QUESTION = {
    "input": {
        "resource": {
            "kind": "Deployment",
            "metadata": {
                "namespace": "shop",
                "annotations": {"customer": "acme", "replica-set-preferences": None},
                "labels": {"criticality": "low"},
            },
            "spec": {
                "replicas": 2,
                "parallelism": 1,
                "template": {
                    "spec": {
                        "tolerations": [],
                        "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
                    }
                },
            },
        }
    },
    "placement": {
        "clusters": {"a": CLUSTER, "b": {**CLUSTER, "location": "public"}},
        "customers": {"acme": {"jurisdictions": ["de"], "certifications": ["pci"]}},
    },
    "namespaces": {"shop": {"metadata": {"labels": {"customer": "acme"}, "annotations": {}}}},
}


def paths_of(value: Any) -> list[tuple[Any, ...]]:
    """The paths of all parts of a value, but not of the value itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [
        path
        for key, part in items
        for path in (
            (key,),
            *((key, *rest) for rest in (paths_of(part) if isinstance(part, dict | list) else ())),
        )
    ]


def replaced(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    """`whole` with another value at this path, if that is still there."""
    if not path:
        return value
    first, *rest = path
    if isinstance(whole, dict):
        return {**whole, first: replaced(whole.get(first), tuple(rest), value)}
    if isinstance(whole, list) and isinstance(first, int) and first < len(whole):
        return [*whole[:first], replaced(whole[first], tuple(rest), value), *whole[first + 1 :]]
    return whole


def with_changes(changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
    """QUESTION with other values at these paths."""
    question: Any = QUESTION
    for path, value in changes:
        question = replaced(question, path, value)
    return question


changes = st.lists(st.tuples(st.sampled_from(paths_of(QUESTION)), values), max_size=3)
questions = changes.map(with_changes)


def test_every_question_has_an_answer_that_fails_closed() -> None:
    asked: list[dict[str, Any]] = []

    # One process of OPA for all of them. One example of all would be too large for hypothesis.
    @settings(
        max_examples=400,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(questions)
    def collect(question: dict[str, Any]) -> None:
        asked.append(question)

    collect()
    for question, answer in zip(asked, answers(asked), strict=True):
        assert answer is not None, question
        assert answer.keys() == {"annotations", "errors", "explanation"}
        chosen = answer["annotations"]["replica-set-preferences"]["clusters"]
        assert bool(chosen) != bool(answer["errors"]), question
        for name, preference in chosen.items():
            assert answer["explanation"][name] == "allowed"
            assert preference["weight"] > 0
        world = question["placement"]
        known = world.get("clusters") if isinstance(world, dict) else None
        assert answer["explanation"].keys() == (known.keys() if isinstance(known, dict) else set())


def workload(**annotations: Any) -> dict[str, Any]:
    written = {name.replace("_", "-"): value for name, value in annotations.items()}
    return {"resource": {"kind": "Deployment", "metadata": {"annotations": written}}}


def changed(cluster: str, **data: Any) -> dict[str, Any]:
    placement = SCENARIO["placement"]
    clusters = {**placement["clusters"], cluster: {**placement["clusters"][cluster], **data}}
    return {**placement, "clusters": clusters}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "the customer's law and certifications": (
        workload(customer="alpenbank"),
        SCENARIO["placement"],
        {"eu-frankfurt": {"weight": 1}},
    ),
    "public clouds for low criticality": (
        workload(customer="alpenbank", criticality="low"),
        SCENARIO["placement"],
        {"eu-frankfurt": {"weight": 1}, "eu-west-1": {"weight": 1}},
    ),
    "weights are kept": (
        workload(
            customer="globalshop",
            replica_set_preferences='{"clusters": {"us-dallas": {"weight": 0.5}}}',
        ),
        SCENARIO["placement"],
        {"us-dallas": {"weight": 0.5}},
    ),
    "a lost certification": (
        workload(customer="northwind"),
        changed("us-dallas", certifications=["hipaa"]),
        {"eu-frankfurt": {"weight": 1}},
    ),
    "a cordon": (
        workload(customer="northwind"),
        changed("eu-frankfurt", cordoned=True),
        {"us-dallas": {"weight": 1}},
    ),
    "an intent that leaves nothing": (
        workload(customer="medicare-plus"),
        changed("us-dallas", certifications=[]),
        {},
    ),
    "a cluster without jurisdiction": (
        workload(customer="medicare-plus"),
        changed("eu-west-1", jurisdiction=""),
        {},
    ),
    "a negative price": (
        workload(customer="medicare-plus"),
        changed("us-dallas", price={"cpu": -1, "memory": 1}),
        {},
    ),
}


def test_cases_of_the_scenario() -> None:
    asked = [
        {"input": question, "placement": placement, "namespaces": {}}
        for question, placement, _ in CASES.values()
    ]
    for (name, case), answer in zip(CASES.items(), answers(asked), strict=True):
        assert answer["annotations"]["replica-set-preferences"]["clusters"] == case[2], name


@pytest.mark.parametrize("as_text", [False, True])
def test_ten_thousand_clusters_are_refused_by_their_number(as_text: bool) -> None:
    names = [f"cluster-{number}" for number in range(10_000)]
    wanted = json.dumps(names) if as_text else names
    question = workload(customer="globalshop", replica_set_preferences=wanted)
    answer = cli.evaluate("data.k8s.placement", modules=MODULES, data=SCENARIO, input=question)
    assert answer["annotations"]["replica-set-preferences"]["clusters"] == {}
    assert answer["errors"] == {
        "replica-set-preferences": ["it names 10000 clusters: at most 1000"]
    }

"""Placement over clusters answers whatever it is asked, with whatever data, and fails closed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from examples import collected
from hypothesis import strategies as st
from odd_values import odd, paths_of, replaced
from placement_answers import MODULES, answers, shared_answers

from fairlead.common import paths, yaml_files
from fairlead.opa import cli

SCENARIO = yaml_files.read_yaml(paths.root() / "testdata" / "placement" / "data.yaml")[0].value

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


def with_changes(changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
    """QUESTION with other values at these paths."""
    question: Any = QUESTION
    for path, value in changes:
        question = replaced(question, path, value)
    return question


changes = st.lists(st.tuples(st.sampled_from(paths_of(QUESTION)), values), max_size=3)
questions = changes.map(with_changes)


def test_every_question_has_an_answer_that_fails_closed() -> None:
    asked = collected(questions, 400)
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


def with_a_twin(question: Any) -> Any:
    """The question with a customer that has the same data, before the other one by name."""
    world = question["placement"]
    customers = world.get("customers") if isinstance(world, dict) else None
    if not isinstance(customers, dict) or "acme" not in customers:
        return question
    return replaced(question, ("placement", "customers", "aaa"), customers["acme"])


def test_workloads_of_which_placement_reads_the_same_share_its_answer() -> None:
    asked = [each for each in collected(questions, 400) if isinstance(each["input"], dict)]
    asked = [with_a_twin(each) for each in asked if "resource" in each["input"]]
    for question, answer, both in zip(asked, answers(asked), shared_answers(asked), strict=True):
        rest = {key: value for key, value in answer.items() if key != "explanation"}
        assert both == [answer, rest], question


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

"""The policies for Karmada: as their schema says, with integer weights, and the same every time."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from placed import follower, placement

from fairlead.common import paths
from fairlead.common.errors import InputError
from fairlead.placement import karmada

SCHEMA = json.loads((paths.root() / "tools" / "schemas" / "karmada_policy.json").read_text())

WEIGHTS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.integers(1, 1_000_000) | st.floats(0.000001, 1_000_000),
    min_size=1,
)


def test_a_workload_is_divided_among_its_clusters_by_weight() -> None:
    (policy,) = karmada.policies([placement({"us": 0.5, "eu": 2})])
    assert policy == {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "web-deployment", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}
            ],
            "propagateDeps": True,
            "placement": {
                "clusterAffinity": {"clusterNames": ["eu", "us"]},
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}],
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                    "weightPreference": {
                        "staticWeightList": [
                            {"targetCluster": {"clusterNames": ["eu"]}, "weight": 4},
                            {"targetCluster": {"clusterNames": ["us"]}, "weight": 1},
                        ]
                    },
                },
            },
        },
    }


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "Job"])
def test_the_policies_of_each_kind_have_the_fields_of_the_schema(kind: str) -> None:
    for policy in karmada.policies([placement({"eu": 2, "us": 1.5}, kind=kind)]):
        Draft7Validator(SCHEMA).validate(policy)


def test_the_schema_refuses_other_fields_and_other_weights() -> None:
    def valid(**changes: Any) -> bool:
        (policy,) = karmada.policies([placement({"eu": 1})])
        policy["spec"]["placement"].update(changes)
        return bool(Draft7Validator(SCHEMA).is_valid(policy))

    assert valid()
    assert not valid(clusterAfinity={})
    assert not valid(clusterAffinity={"clusterNames": []})
    assert valid(replicaScheduling={"replicaSchedulingType": "Duplicated"})
    assert not valid(replicaScheduling={"replicaSchedulingType": "Copied"})


def test_replica_sets_get_their_counts_by_an_override() -> None:
    """Karmada before 1.16 does not divide them."""
    _, override = karmada.policies([placement({"eu": 2, "us": 1}, kind="ReplicaSet", replicas=4)])
    assert override["kind"] == "OverridePolicy"
    assert {
        rule["targetCluster"]["clusterNames"][0]: rule["overriders"]["plaintext"]
        for rule in override["spec"]["overrideRules"]
    } == {
        "eu": [{"path": "/spec/replicas", "operator": "add", "value": 3}],
        "us": [{"path": "/spec/replicas", "operator": "add", "value": 1}],
    }


def test_jobs_get_their_pods_and_completions_by_an_override() -> None:
    """So that they are divided as in all other outputs."""
    fields = {
        "eu": {"parallelism": 2, "completions": 7},
        "us": {"parallelism": 1, "completions": 3},
    }
    job = placement({"eu": 2, "us": 1}, kind="Job", parallelism=3, changes={"fields": fields})
    policy, override = karmada.policies([job])
    Draft7Validator(SCHEMA).validate(override)
    assert karmada.weights_of(policy) == {"eu": 2, "us": 1}
    assert [rule["overriders"]["plaintext"] for rule in override["spec"]["overrideRules"]] == [
        [
            {"path": f"/spec/{field}", "operator": "add", "value": count}
            for field, count in each.items()
        ]
        for each in fields.values()
    ]
    (alone,) = karmada.policies([placement({"eu": 1}, kind="Job")])
    assert alone["kind"] == "PropagationPolicy"


def test_what_is_not_divided_is_whole_in_each_of_its_clusters() -> None:
    whole = placement({"eu": 1}, kind="CronJob", changes={"fields": {"eu": {}}})
    scaled = placement(
        {"eu": 1, "us": 1},
        changes={"fields": {"eu": {"replicas": None}, "us": {}}, "most": {"eu": 9, "us": 9}},
    )
    for placed in (whole, scaled, follower(["eu", "us"])):
        (policy,) = karmada.policies([placed])
        Draft7Validator(SCHEMA).validate(policy)
        assert policy["spec"]["placement"]["replicaScheduling"] == {
            "replicaSchedulingType": "Duplicated"
        }
        assert list(karmada.weights_of(policy)) == placed.targets


def test_an_autoscaler_gets_its_limits_by_an_override() -> None:
    fields = {
        "eu": {"minReplicas": 4, "maxReplicas": 8},
        "us": {"minReplicas": 2, "maxReplicas": 4},
    }
    _, override = karmada.policies(
        [follower(["eu", "us"], kind="HorizontalPodAutoscaler", fields=fields)]
    )
    Draft7Validator(SCHEMA).validate(override)
    assert "/spec/minReplicas" in json.dumps(override)


def test_objects_of_no_namespace_have_policies_of_none_and_namespaces_have_none() -> None:
    issuer = follower(["eu"], kind="Issuer", api_version="example.com/v1", namespace="")
    (policy,) = karmada.policies([issuer, follower(["eu"], kind="Namespace", namespace="")])
    Draft7Validator(SCHEMA).validate(policy)
    assert policy["kind"] == "ClusterPropagationPolicy"
    assert policy["metadata"] == {"name": "web-issuer.example.com"}


def test_what_may_not_be_where_the_workload_is_does_not_follow_it() -> None:
    (policy,) = karmada.policies([placement({"eu": 1}, changes={"carries": False})])
    assert policy["spec"]["propagateDeps"] is False


@given(WEIGHTS)
def test_integer_weights_have_the_same_proportions(weights: dict[str, float]) -> None:
    integers = karmada.integers(weights)
    assert list(integers) == sorted(weights)
    assert all(1 <= weight <= karmada.LARGEST_WEIGHT for weight in integers.values())
    largest = max(weights, key=lambda name: Fraction(str(weights[name])))
    for name, weight in weights.items():
        wanted = Fraction(str(weight)) / Fraction(str(weights[largest]))
        assert abs(Fraction(integers[name], integers[largest]) - wanted) <= Fraction(1, 10**9)


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 30_000), min_size=1))
def test_they_are_exact_if_they_fit(weights: dict[str, int]) -> None:
    integers = karmada.integers({name: weight / 1000 for name, weight in weights.items()})
    ratios = {Fraction(integers[name], weight) for name, weight in weights.items()}
    assert len(ratios) == 1


def test_names_of_policies_fit_into_a_label_and_differ() -> None:
    names = ["web", "web-deployment", "a" * 60, "a" * 60 + "b", "a" * 51 + ".b" + "c" * 20]
    placements = [
        placement({"eu": 1}, name=name, kind=kind)
        for name in names
        for kind in ("Deployment", "StatefulSet")
    ]
    placements += [
        follower(["eu"], kind="Service"),
        follower(["eu"], kind="Service", api_version="serving.knative.dev/v1"),
        follower(["eu"], kind="ClusterRole", name="system:reader", namespace=""),
        follower(["eu"], kind="ClusterRole", name="system-reader", namespace=""),
    ]
    policies = karmada.policies(placements)
    assert len({policy["metadata"]["name"] for policy in policies}) == len(placements)
    for policy in policies:
        Draft7Validator(SCHEMA).validate(policy)


def test_workloads_that_cannot_be_told_apart_are_refused() -> None:
    web = placement({"eu": 1})
    with pytest.raises(InputError, match="Deployment shop/web is here twice: remove one"):
        karmada.policies([web, web])
    del web.document.value["metadata"]["name"]
    with pytest.raises(InputError, match=r"has no metadata\.name, by which its clusters can know"):
        karmada.policies([web])


def test_a_workload_with_errors_has_no_policy() -> None:
    failed = placement({}, errors={"customer": ['customer "acme" is not known']})
    assert karmada.policies([failed]) == []

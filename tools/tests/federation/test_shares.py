"""What each cluster holds: its share of each workload, and what goes with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from placed import placement, result

from fairlead.common.errors import InputError
from fairlead.federation import shares


def manifest(kind: str, name: str, namespace: str | None = None) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


NAMESPACE = manifest("Namespace", "shop")
SETTINGS = manifest("ConfigMap", "settings", "shop")
CLASS = manifest("PriorityClass", "high")


def named(manifests: Any) -> list[str]:
    return [each["metadata"]["name"] for each in manifests]


def test_what_a_namespace_has_goes_where_its_workloads_go() -> None:
    other = placement({"us": 1}, namespace="other")
    decided = shares.of(
        result(SETTINGS, CLASS, placement({"eu": 1}), NAMESPACE, other, manifest("Secret", "key"))
    )
    assert decided.clusters == ["eu", "us"]
    assert named(decided.beside("eu")) == ["shop", "high", "settings"]
    assert named(decided.beside("us")) == ["high"]
    assert decided.beside("asia") == []


def test_clusters_that_get_nothing_were_considered_as_well() -> None:
    excluded = replace(placement({"eu": 1}), explanation={"eu": "allowed", "us": "it is cordoned"})
    decided = shares.of(result(excluded))
    assert decided.clusters == ["eu"]
    assert decided.considered == {"eu", "us"}


def test_namespaces_and_what_belongs_to_none_are_never_removed() -> None:
    decided = shares.of(result(SETTINGS, CLASS, NAMESPACE, placement({"eu": 1})))
    assert decided.left("eu") == []
    assert named(decided.left("us")) == ["settings"]


def test_objects_of_the_default_namespace_need_not_name_it() -> None:
    decided = shares.of(
        result(manifest("ConfigMap", "plain"), placement({"eu": 1}, namespace="default"))
    )
    assert [each["metadata"]["namespace"] for each in decided.beside("eu")] == ["default"]


def test_what_belongs_to_another_object_is_left_out() -> None:
    owned = manifest("Pod", "web-1", "shop")
    owned["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "controller": True}]
    decided = shares.of(result(owned, placement({"eu": 1})))
    assert decided.beside("eu") == decided.left("us") == []


def test_a_cluster_without_pods_does_not_get_the_workload() -> None:
    (workload,) = shares.of(result(placement({"eu": 9, "us": 1}, replicas=2))).workloads
    assert workload.replicas == {"eu": 2}
    (stopped,) = shares.of(result(placement({"eu": 9, "us": 1}, replicas=0))).workloads
    assert stopped.replicas == {"eu": 0, "us": 0}


def test_the_share_of_a_workload_and_nothing_else_differs() -> None:
    original = placement({"eu": 2, "us": 1})
    (workload,) = shares.of(result(original)).workloads
    assert shares.manifest(workload, "eu") == {
        **original.document.value,
        "spec": {**original.document.value["spec"], "replicas": 4},
    }


def test_the_completions_of_a_job_are_divided_too() -> None:
    job = placement({"eu": 2, "us": 1}, kind="Job", parallelism=3, completions=10)
    (workload,) = shares.of(result(job)).workloads
    specs = {name: shares.manifest(workload, name)["spec"] for name in ("eu", "us")}
    assert specs == {
        "eu": {"parallelism": 2, "completions": 7},
        "us": {"parallelism": 1, "completions": 3},
    }
    live = {"spec": {**specs["eu"], "backoffLimit": 6}}
    assert shares.is_share(workload, "eu", live)
    assert not shares.is_share(workload, "us", live)


def test_a_stopped_job_can_be_divided() -> None:
    job = placement({"eu": 2, "us": 1}, kind="Job", parallelism=0, completions=3)
    (workload,) = shares.of(result(job)).workloads
    assert shares.manifest(workload, "eu")["spec"] == {"parallelism": 0, "completions": 2}


def test_a_job_with_indexes_cannot_be_divided() -> None:
    """Each cluster would count from 0."""
    both = placement({"eu": 1, "us": 1}, kind="Job", completionMode="Indexed", completions=4)
    with pytest.raises(InputError, match=r"has indexes \(completionMode: Indexed\)"):
        shares.of(result(both))
    alone = placement({"eu": 1}, kind="Job", completionMode="Indexed", completions=4)
    assert shares.of(result(alone)).clusters == ["eu"]

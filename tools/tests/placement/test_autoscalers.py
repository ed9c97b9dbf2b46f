"""An autoscaler sets the replicas of its target: its least number counts, and no output writes
spec.replicas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from place_command import run

from fairlead.cli.placement.what_if import command as what_if

DATA = """\
placement:
  clusters:
    north: {jurisdiction: eu, location: on-prem, price: {cpu: 0.02, memory: 0.002}, capacity: {cpu: '16'}}
    south: {jurisdiction: eu, location: on-prem, price: {cpu: 0.03, memory: 0.003}, capacity: {cpu: '64'}}
  customers: {euro: {jurisdictions: [eu]}}
"""  # noqa: E501
POD = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}]}


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.yaml").write_text(DATA)


def workload(kind: str = "Deployment", version: str = "apps/v1", **says: str) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": "api",
            "namespace": "shop",
            "annotations": {"customer": "euro", **says},
        },
        "spec": {"replicas": 3, "template": {"spec": POD}},
    }


def autoscaler(kind: str = "Deployment", version: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "scaler", "namespace": "shop"},
        "spec": {
            "minReplicas": 10,
            "maxReplicas": 21,
            "scaleTargetRef": {"apiVersion": version, "kind": kind, "name": "api"},
            **spec,
        },
    }


KEDA: dict[str, Any] = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "scaler", "namespace": "shop"},
    "spec": {"minReplicaCount": 10, "maxReplicaCount": 21, "scaleTargetRef": {"name": "api"}},
}
IN_BOTH = {"replica-set-preferences": '["north", "south"]'}


def decided(*objects: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = json.loads(run(*objects, options=("-o", "json")).stdout)[0]
    return first


@pytest.mark.parametrize("scaler", [autoscaler(), KEDA])
def test_the_least_replicas_need_room_and_have_a_price(scaler: dict[str, Any]) -> None:
    answer = decided(workload(), scaler)
    assert {name: each["replicas"] for name, each in answer["clusters"].items()} == {"south": 10}
    assert "the workload requests 20 (replicas: 10)" in answer["explanation"]["north"]
    assert answer["cost"] == 0.6
    (note,) = answer["notes"]
    assert note.endswith(
        "scaler sets the replicas: at least 10 count, and spec.replicas is left to it"
    )
    assert f"note: Deployment shop/api: {note}\n" in run(workload(), scaler).stderr


def test_without_a_least_number_one_counts_and_another_target_is_none_of_it() -> None:
    assert decided(workload(), autoscaler(minReplicas=None))["clusters"]["north"]["replicas"] == 1
    for other in (autoscaler(kind="StatefulSet"), autoscaler(version="example.com/v1"), KEDA | {}):
        target: dict[str, Any] = other["spec"]["scaleTargetRef"]
        renamed = {**other, "spec": {**other["spec"], "scaleTargetRef": {**target, "name": "b"}}}
        answer = decided(workload(), renamed)
        assert answer["clusters"]["north"]["replicas"] == 3
        assert "notes" not in answer


def test_odd_autoscalers_are_no_autoscalers_of_anything() -> None:
    specs: list[Any] = ["x", {"scaleTargetRef": "api"}, {"scaleTargetRef": {}}, None]
    for spec in specs:
        odd = {**autoscaler(), "spec": spec}
        assert decided(workload(), odd)["clusters"]["north"]["replicas"] == 3


def test_each_cluster_gets_its_share_of_the_limits_and_no_replicas() -> None:
    objects = (workload(**IN_BOTH), autoscaler(minReplicas=5, maxReplicas=9))
    source = "--source=https://git.example.com/a.git//deploy"
    (application_set,) = yaml.safe_load_all(run(*objects, options=("-o", "argocd", source)).stdout)
    limits: dict[str, Any] = {}
    replicas: dict[str, Any] = {}
    for element in application_set["spec"]["generators"][0]["list"]["elements"]:
        for part in element["objects"]:
            spec = json.loads(part["patch"])["spec"]
            is_target = "Deployment" in part["target"]
            (replicas if is_target else limits)[element["cluster"]] = spec
    assert limits == {
        "north": {"minReplicas": 3, "maxReplicas": 5},
        "south": {"minReplicas": 2, "maxReplicas": 4},
    }
    assert replicas == {name: {"replicas": None} for name in limits}  # taken out

    policies = list(yaml.safe_load_all(run(*objects, options=("-o", "karmada")).stdout))
    assert [policy["metadata"]["name"] for policy in policies] == [
        "api-deployment",
        "scaler-horizontalpodautoscaler",
        "scaler-horizontalpodautoscaler",
    ]
    assert "replicas" not in json.dumps(policies[0]).replace("replicaScheduling", "")
    assert "/spec/maxReplicas" in json.dumps(policies[2])


def test_it_is_where_its_target_is_whosever_the_namespace_is() -> None:
    """Without it, its target would have one replica there: the manifest's are taken out."""
    Path("data.yaml").write_text(
        DATA.replace("south: {jurisdiction: eu", "south: {jurisdiction: us").replace(
            "{euro:", "{both: {jurisdictions: [eu, us]}, euro:"
        )
    )
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"customer": "euro"}},
    }
    api = workload(**{**IN_BOTH, "customer": "both"})
    small = autoscaler(minReplicas=4)
    parts = json.loads(run(namespace, api, small, options=("-o", "json")).stdout)
    assert [(each["kind"], sorted(each["clusters"])) for each in parts] == [
        ("Deployment", ["north", "south"]),
        ("HorizontalPodAutoscaler", ["north", "south"]),
    ]


def test_what_if_counts_as_place_does(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(yaml.safe_dump_all([workload(), autoscaler()]))
    result = CliRunner().invoke(
        what_if,
        ["-f", "app.yaml", "--price", "south=0.1", "-o", "json"],
        standalone_mode=False,
        catch_exceptions=False,
    )
    (comparison,) = json.loads(result.stdout)
    assert comparison["then"]["clusters"] == {"south": {"weight": 10, "replicas": 10}}
    assert comparison["then"]["cost"] == 2.0

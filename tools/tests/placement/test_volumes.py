"""What keeps data in volumes does not leave a cluster unasked, and the message says what becomes of
each volume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from place_command import run

from fairlead.common.yaml_files import Document
from fairlead.placement import volumes
from fairlead.placement.placements import ANNOTATION

POD = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}
CLUSTER = {"jurisdiction": "eu", "location": "on-prem"}


def data(**changes: Any) -> dict[str, Any]:
    prices = {"old": 0.03, "new": 0.01}
    clusters = {
        name: {**CLUSTER, "price": {"cpu": price, "memory": 0}, **changes.get(name, {})}
        for name, price in prices.items()
    }
    return {
        "placement": {
            "clusters": clusters,
            "customers": {"euro": {"jurisdictions": ["eu"]}},
            "applications": changes.get("applications", {}),
        }
    }


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.yaml").write_text(json.dumps(data()))
    return tmp_path


def decided(*objects: dict[str, Any], options: tuple[str, ...] = ()) -> dict[str, Any]:
    first: dict[str, Any] = json.loads(run(*objects, options=(*options, "-o", "json")).stdout)[0]
    return first


def database(storage_class: str | None = "fast", **says: str) -> dict[str, Any]:
    spec = {"storageClassName": storage_class} if storage_class else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "db",
            "namespace": "shop",
            "annotations": {"customer": "euro", **says},
        },
        "spec": {
            "replicas": 2,
            "template": {"spec": POD},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}],
        },
    }


def claiming(claim: str = "files", **says: str) -> dict[str, Any]:
    value = database(**says)
    pod = {**POD, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}
    spec = {"replicas": 1, "template": {"spec": pod}}
    return {**value, "kind": "Deployment", "spec": spec}


RUNS_IN_OLD = {ANNOTATION: '{"clusters":{"old":{"weight":2}}}'}
CORDONED = {"old": {"cordoned": True}}


@pytest.mark.parametrize("workload", [database(**RUNS_IN_OLD), claiming(**RUNS_IN_OLD)])
def test_a_price_moves_no_volume_unless_that_is_accepted(workload: dict[str, Any]) -> None:
    assert list(decided(workload)["clusters"]) == ["old"]
    accepted = decided(workload, options=("--move-volumes=accept",))
    assert list(accepted["clusters"]) == ["new"]
    workload["metadata"]["annotations"]["move-volumes"] = "accept"
    assert list(decided(workload)["clusters"]) == ["new"]


def test_what_has_no_claim_or_runs_nowhere_goes_where_it_costs_least() -> None:
    assert list(decided(database())["clusters"]) == ["new"]
    bare = database(**RUNS_IN_OLD)
    del bare["spec"]["volumeClaimTemplates"]
    assert list(decided(bare)["clusters"]) == ["new"]


@pytest.mark.parametrize("where", ["annotation", "data"])
def test_what_has_to_leave_its_volumes_is_not_placed_and_says_what_becomes_of_them(
    folder: Path, where: str
) -> None:
    running = {"shop/db": {"clusters": ["old"]}} if where == "data" else {}
    (folder / "data.yaml").write_text(json.dumps(data(applications=running, **CORDONED)))
    workload = database(**(RUNS_IN_OLD if where == "annotation" else {}))
    for options in ((), ("-o", "karmada"), ("-o", "argocd", "--source=https://x.example/a//b")):
        result = run(workload, options=options)
        assert result.return_value == 1
        printed = result.stdout + result.stderr
        assert "what they hold would not move along to new" in printed
        assert "or --move-volumes=accept for all" in printed
        assert 'volume "data": its claims stay where they are until somebody deletes' in printed
        assert 'not known, as no manifest has StorageClass "fast"' in printed
        assert "kind: PropagationPolicy" not in printed
        assert "kind: ApplicationSet" not in printed
    assert run(workload, options=("--move-volumes=accept",)).return_value == 0


def storage_class(name: str = "fast", **parts: Any) -> dict[str, Any]:
    annotations = parts.pop("annotations", {})
    metadata = {"name": name, "annotations": annotations}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        **parts,
    }


def of_namespace(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": "shop"} if kind != "PersistentVolume" else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}


DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


@pytest.mark.parametrize(
    ("workload", "objects", "words"),
    [
        (database(), [storage_class()], 'of StorageClass "fast" is Delete: with its claim'),
        (database(), [storage_class(reclaimPolicy="Retain")], "is Retain: the volume outlives"),
        (
            database(storage_class=None),
            [storage_class("std", annotations=DEFAULT, reclaimPolicy="Retain")],
            'of StorageClass "std" is Retain',
        ),
        (database(storage_class=None), [], "no manifest has the default StorageClass"),
        (claiming(), [], "no manifest has its claim"),
        (
            claiming(),
            [of_namespace("PersistentVolumeClaim", "files", {"volumeName": "disk"})],
            'no manifest has PersistentVolume "disk"',
        ),
        (
            claiming(),
            [
                of_namespace("PersistentVolumeClaim", "files", {"volumeName": "disk"}),
                of_namespace(
                    "PersistentVolume", "disk", {"persistentVolumeReclaimPolicy": "Recycle"}
                ),
            ],
            'of PersistentVolume "disk" is Recycle: once its claim is deleted',
        ),
        (
            claiming(),
            [
                of_namespace("PersistentVolumeClaim", "files", {"storageClassName": "fast"}),
                storage_class(reclaimPolicy="Delete"),
            ],
            'its claim "files" goes where the workload goes; the reclaim policy of StorageClass',
        ),
    ],
)
def test_the_reclaim_policy_says_what_becomes_of_a_volume(
    workload: dict[str, Any], objects: list[dict[str, Any]], words: str
) -> None:
    documents = [Document(Path("a.yaml"), value, None) for value in objects]
    (sentence,) = volumes.sentences(workload, documents)
    assert words in sentence
    assert sentence.endswith("Elsewhere it begins empty")


def test_a_stateful_set_may_delete_its_claims() -> None:
    workload = database()
    workload["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Delete"}
    (sentence,) = volumes.sentences(workload, [])
    assert sentence.startswith('volume "data": its claims are deleted with the StatefulSet; ')


@pytest.mark.parametrize("odd", [None, "x", [], [None], ["x"], [{"metadata": "x"}]])
def test_odd_workloads_have_no_odd_sentences(odd: Any) -> None:
    for path in ("volumeClaimTemplates", "template"):
        workload = database()
        workload["spec"] = {"replicas": 1, path: odd}
        assert isinstance(volumes.sentences(workload, []), list)

"""`fairlead place` decides with the real OPA where the workloads of manifests run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.cli.placement.place import command
from fairlead.common import paths
from fairlead.common.errors import InputError, UsageError
from fairlead.placement.placements import ANNOTATION

SCENARIO = paths.root() / "testdata" / "placement"
DATA = SCENARIO / "data.yaml"
APPS = SCENARIO / "apps"


def run(*arguments: str | Path, data: Path = DATA, text: str | None = None) -> Result:
    return CliRunner().invoke(
        command,
        ["--data", str(data), *map(str, arguments)],
        input=text,
        standalone_mode=False,
        catch_exceptions=False,
    )


def placed(*arguments: str | Path, text: str | None = None) -> list[dict[str, Any]]:
    placements: list[dict[str, Any]] = json.loads(run(*arguments, "-o", "json", text=text).stdout)
    return placements


def test_every_application_of_the_scenario_has_clusters() -> None:
    result = run("-f", APPS, "-o", "json")
    assert result.return_value == 0
    placements = json.loads(result.stdout)
    assert len(placements) == 30
    assert len({placement["namespace"] for placement in placements}) == 8
    for placement in placements:
        assert placement["errors"] == {}
        assert len(placement["explanation"]) == 6
        assert sum(cluster["replicas"] for cluster in placement["clusters"].values()) > 0


def test_a_placement_as_json() -> None:
    storefront = placed("-f", APPS / "globalshop.yaml")[0]
    clusters = {
        "asia-singapore": {"weight": 0.5, "replicas": 1, "cost": 0.0163},
        "eu-frankfurt": {"weight": 2, "replicas": 6, "cost": 0.0798},
        "us-dallas": {"weight": 1, "replicas": 3, "cost": 0.0342},
    }
    assert storefront == {
        "file": str(APPS / "globalshop.yaml"),
        "line": 7,
        "kind": "Deployment",
        "namespace": "globalshop",
        "name": "storefront",
        "clusters": clusters,
        "cost": 0.1303,
        "costs": {"asia-singapore": 0.163, "eu-frankfurt": 0.133, "us-dallas": 0.114},
        "annotations": {
            ANNOTATION: '{"clusters":{"asia-singapore":{"weight":0.5},"eu-frankfurt":{"weight":2},'
            '"us-dallas":{"weight":1}}}'
        },
        "errors": {},
        "explanation": {
            **dict.fromkeys(clusters, "allowed"),
            **dict.fromkeys(
                ("asia-se-3", "eu-west-1", "us-west-1"),
                "it is a public cloud, which is only for workloads of criticality low",
            ),
        },
    }


def test_the_table_shows_where_and_why_not() -> None:
    lines = run(APPS / "medicare-plus.yaml").stdout.split("\n\n")[0].splitlines()
    assert lines[0] == "Deployment medicare-plus/patient-portal"
    assert lines[1].split() == ["CLUSTER", "WEIGHT", "REPLICAS", "COST", "WHY"]
    assert lines[2].split() == ["us-dallas", "4", "4", "0.0456", "allowed"]
    assert lines[-2].split()[:4] == ["us-west-1", "-", "-", "-"]
    assert lines[-1] == "cost: 0.0456 an hour"
    assert lines[-2].endswith('it lacks what customer "medicare-plus" requires: hipaa')


def test_errors_are_named_and_the_exit_code_is_1() -> None:
    result = run(SCENARIO / "mistakes.yaml", "-o", "json")
    assert result.return_value == 1
    placements = json.loads(result.stdout)
    assert {placement["name"]: list(placement["errors"]) for placement in placements} == {
        "unknown-customer": ["customer"],
        "abroad": ["invalid cluster(s)"],
        "too-large": ["no cluster"],
        "no-json": ["replica-set-preferences"],
        "too-wide": ["spread"],
        "sends-to-nobody": ["traffic"],
        "weightless": ["replica-set-preferences"],
    }
    assert all(placement["clusters"] == {} for placement in placements)
    assert placements[1]["errors"]["invalid cluster(s)"] == ["us-dallas"]
    assert "error: invalid cluster(s): us-dallas" in run(SCENARIO / "mistakes.yaml").stdout


def test_manifests_get_the_decision_as_an_annotation_and_the_second_time_the_same() -> None:
    result = run("-f", APPS / "alpenbank.yaml", "-o", "annotations")
    assert result.return_value == 0
    manifests = list(yaml.safe_load_all(result.stdout))
    originals = list(yaml.safe_load_all((APPS / "alpenbank.yaml").read_text()))
    assert [manifest["kind"] for manifest in manifests] == [
        original["kind"] for original in originals
    ]
    assert manifests[0] == originals[0]
    text = manifests[1]["metadata"]["annotations"].pop(ANNOTATION)
    assert json.loads(text) == {"clusters": {"eu-frankfurt": {"weight": 6}}}
    assert manifests[1] == originals[1]
    assert run("-", "-o", "annotations", text=result.stdout).stdout == result.stdout


def test_workloads_with_errors_are_not_printed_with_annotations() -> None:
    text = "\n---\n".join(
        (SCENARIO / name).read_text() for name in ("mistakes.yaml", "apps/alpenbank.yaml")
    )
    result = run("-f", "-", "-o", "annotations", text=text)
    assert result.return_value == 1
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(result.stdout)]
    assert names == ["alpenbank", "payments", "ledger", "statements", "branch-finder"]
    assert "error: Deployment default/abroad: invalid cluster(s): us-dallas\n" in result.stderr


def test_replicas_follow_from_the_kind_of_the_workload() -> None:
    def counted(kind: str, spec: str) -> Any:
        api_version = "batch/v1" if kind == "Job" else "apps/v1"
        (placement,) = placed(
            "-",
            text=f"{{apiVersion: {api_version}, kind: {kind}, spec: {spec}, "
            "metadata: {annotations: {customer: stadtwerke}}}",
        )
        return placement["clusters"]["eu-frankfurt"]["replicas"]

    assert counted("Deployment", "{}") == counted("Job", "null") == 1
    assert counted("StatefulSet", "{replicas: 7}") == counted("ReplicaSet", "{replicas: 7}") == 7
    assert counted("Job", "{parallelism: 5, replicas: 9}") == 5
    assert counted("Deployment", "{replicas: 0}") == 0


def test_what_is_no_workload_of_its_own_is_left_alone() -> None:
    owned = (
        "apiVersion: apps/v1\nkind: ReplicaSet\n"
        "metadata: {name: web-1, ownerReferences: [{kind: Deployment, controller: true}]}\n"
    )
    text = f"{owned}---\n{{apiVersion: v1, kind: Service, metadata: {{name: web}}}}\n"
    with pytest.raises(UsageError, match="stdin: no workload to place: name manifests of one of"):
        run("-", text=text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("placement", "has no data of clusters: write one document with `placement`"),
        ("clusters: {}", "has no data of clusters"),
        ("placement: {}\n---\nplacement: {}", "has no data of clusters"),
        ("placement: {clusters: {a: {}, a: {}}}", "the key 'a' stands here twice"),
    ],
)
def test_files_that_hold_no_data(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "data.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        run(APPS, data=tmp_path / "data.yaml")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        run(APPS, data=tmp_path / "data.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        run("-f", tmp_path / "none.yaml")
    with pytest.raises(click.UsageError, match="Missing a file or folder of manifests"):
        run()


@pytest.mark.parametrize("data", ["placement: {}", "placement: [1]", "placement: {clusters: 5}"])
def test_data_of_another_shape_are_an_error_of_the_decision(tmp_path: Path, data: str) -> None:
    (tmp_path / "data.yaml").write_text(data)
    result = run(APPS / "stadtwerke.yaml", "-o", "json", data=tmp_path / "data.yaml")
    assert result.return_value == 1
    assert all("data" in placement["errors"] for placement in json.loads(result.stdout))

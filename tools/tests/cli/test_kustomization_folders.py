"""`fairlead eval` and `fairlead place` on folders with a kustomization: what kustomize builds
counts, and what is said about it names the file that people wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fairlead.cli.decisions import eval as evaluation
from fairlead.cli.placement import place

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {customer: acme, min-clusters: '2'}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {nodeName: n1, containers: []}\n"
GATED = {
    "kustomization.yaml": (
        "namespace: shop\nresources: [namespace.yaml, app.yaml, pods.yaml]\n"
        "patches: [{path: node.yaml}, {path: removal.yaml}]\n"
    ),
    "namespace.yaml": (
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {agentpool: pool1}}\n"
    ),
    "app.yaml": f"apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\n---\n{DEPLOYMENT}",
    "node.yaml": (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
        "spec: {template: {spec: {nodeName: node-7}}}\n"
    ),
    "pods.yaml": POD.replace("NAME", "old"),
    "removal.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: old}\n$patch: delete\n",
    "zz.yaml": POD.replace("NAME", "bad, namespace: shop"),
}
PLACED = {
    "kustomization.yaml": (
        "namespace: shop\nresources: [web.yaml]\nreplicas: [{name: web, count: 6}]\n"
    ),
    "web.yaml": DEPLOYMENT,
}
DATA = """\
placement:
  clusters:
    north: {jurisdiction: eu, location: on-prem}
    west: {jurisdiction: us, location: on-prem}
  customers: {acme: {jurisdictions: [eu, us]}}
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.yaml").write_text(DATA)


def write(files: Mapping[str, str]) -> None:
    """Write the files to the folder `repo`."""
    for name, text in files.items():
        Path("repo").mkdir(exist_ok=True)
        Path("repo", name).write_text(text)


def gate() -> Result:
    words = ["repo", "--fail-on=refused"]
    return CliRunner().invoke(
        evaluation.command, words, standalone_mode=False, catch_exceptions=False
    )


def placed(*arguments: str) -> Result:
    words = ["--data=data.yaml", *arguments, "-o", "json"]
    return CliRunner().invoke(place.command, words, standalone_mode=False, catch_exceptions=False)


def test_the_gate_judges_what_kustomize_builds_and_names_the_files_of_its_resources() -> None:
    write(GATED)
    result = gate()
    assert result.return_value == 1
    deployment, pod, _, summary = result.stdout.splitlines()
    assert deployment.startswith("repo/app.yaml:5: refused: Deployment shop/web: ")
    assert "spec.nodeName=node-7" in deployment
    assert pod.startswith("repo/zz.yaml:1: refused: Pod shop/bad: ")
    assert summary == "4 objects in 3 files: 2 refused, 2 admitted"


def test_the_gate_lets_a_folder_pass_whose_patches_mend_it() -> None:
    kustomization = GATED["kustomization.yaml"].replace("{path: node.yaml}, ", "")
    write({**GATED, "kustomization.yaml": kustomization, "zz.yaml": ""})
    assert gate().return_value == 0


def test_workloads_have_the_namespace_and_the_replicas_of_the_kustomization() -> None:
    write(PLACED)
    result = placed("-f", "repo")
    assert result.return_value == 0
    (web,) = json.loads(result.stdout)
    assert (web["file"], web["line"]) == ("repo/web.yaml", 1)
    assert (web["kind"], web["namespace"], web["name"]) == ("Deployment", "shop", "web")
    replicas = {name: cluster["replicas"] for name, cluster in web["clusters"].items()}
    assert replicas == {"north": 3, "west": 3}


def test_the_namespace_of_the_kustomization_says_whose_a_workload_is() -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {customer: acme}}"
    write({**PLACED, "web.yaml": DEPLOYMENT.replace("customer: acme, ", "")})
    Path("namespace.yaml").write_text(namespace)
    assert placed("-f", "repo").return_value == 1, "nobody is named"
    assert placed("-f", "repo", "-f", "namespace.yaml").return_value == 0

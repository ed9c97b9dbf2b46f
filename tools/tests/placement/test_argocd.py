"""The ApplicationSets for Argo CD: their template and its patches are carried out by kubectl, which
has Go templates and Kustomize."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from placed import placement

from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.placement import argocd
from fairlead.programs import toolchain

SCHEMA = json.loads(
    (paths.root() / "tools" / "schemas" / "argocd_application_set.json").read_text()
)
SOURCE = argocd.Source("https://git.example.com/shop.git", "deploy", "main")
PLACEMENTS = [
    placement({"eu": 2, "us": 1}),
    placement({"eu": 1}, name="on", replicas=2_000_000),
    placement({"us": 1}, name="on", kind="StatefulSet"),
    placement({"us": 1}, name="import.v1", kind="Job", parallelism=2),
    placement({"eu": 1}, name="importxv1", kind="Job", parallelism=3),
]


def kubectl(folder: Path, *arguments: str) -> str:
    program = toolchain.ensure(["kubectl"])["kubectl"]
    done = subprocess.run(
        [str(program), *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def applied(folder: Path, application_set: dict[str, Any], element: dict[str, Any]) -> list[Any]:
    """The manifests that Argo CD would apply in the cluster of the element."""
    # kubectl prints any object by a template, if it has a kind.
    (folder / "element.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}, **element})
    )
    (folder / "template").write_text(application_set["spec"]["templatePatch"])
    local = ("annotate", "--local", "-f", "element.json", "a=b")
    patch = yaml.safe_load(kubectl(folder, *local, "-o", "go-template-file=template"))
    (folder / "app.yaml").write_text(
        yaml.safe_dump_all([each.document.value for each in PLACEMENTS])
    )
    kustomization = {"resources": ["app.yaml"], **patch["spec"]["source"]["kustomize"]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return list(yaml.safe_load_all(kubectl(folder, "kustomize", ".")))


def test_each_cluster_gets_its_workloads_alone_with_its_share_of_the_pods(tmp_path: Path) -> None:
    (application_set,) = argocd.application_sets(PLACEMENTS, SOURCE)
    Draft7Validator(SCHEMA).validate(application_set)
    (generator,) = application_set["spec"]["generators"]
    held = {}
    for element in generator["list"]["elements"]:
        manifests = applied(tmp_path, application_set, element)
        held[element["cluster"]] = {
            (each["kind"], each["metadata"]["name"]): each["spec"] for each in manifests
        }
    assert held == {
        "eu": {
            ("Deployment", "on"): {"replicas": 2_000_000},
            ("Deployment", "web"): {"replicas": 4},
            ("Job", "importxv1"): {"parallelism": 3},
        },
        "us": {
            ("Deployment", "web"): {"replicas": 2},
            ("Job", "import.v1"): {"parallelism": 2},
            ("StatefulSet", "on"): {"replicas": 6},
        },
    }


def test_each_namespace_has_one_and_they_come_in_order() -> None:
    sets = argocd.application_sets(
        [placement({"us": 1}, namespace=name) for name in ("b", "a", "b ".strip())][:2], SOURCE
    )
    assert [each["metadata"]["name"] for each in sets] == ["a", "b"]
    spec = sets[0]["spec"]["template"]["spec"]
    assert spec["destination"] == {"name": "{{ .cluster }}", "namespace": "a"}
    assert spec["source"] == {
        "repoURL": "https://git.example.com/shop.git",
        "path": "deploy",
        "targetRevision": "main",
    }


def test_a_namespace_with_an_error_is_left_out() -> None:
    """Its folder has the workload that has no clusters, too."""
    failed = placement({}, name="api", errors={"customer": ["nobody names one"]})
    other = placement({"eu": 1}, namespace="other")
    sets = argocd.application_sets([*PLACEMENTS, failed, other], SOURCE)
    assert [each["metadata"]["name"] for each in sets] == ["other"]


@pytest.mark.parametrize(
    ("text", "url", "path", "revision"),
    [
        ("https://a.example/b.git//deploy/eu?ref=v1", "https://a.example/b.git", "deploy/eu", "v1"),
        ("https://a.example/b//deploy/", "https://a.example/b", "deploy", "HEAD"),
        ("git@a.example:b.git//.", "git@a.example:b.git", ".", "HEAD"),
        ("ssh://git@a.example:22/b.git//x?ref=a/b", "ssh://git@a.example:22/b.git", "x", "a/b"),
    ],
)
def test_a_source_is_written_as_for_kustomize(
    text: str, url: str, path: str, revision: str
) -> None:
    assert argocd.Source.parse(text) == argocd.Source(url, path, revision)


@pytest.mark.parametrize(
    "text", ["", "https://a.example/b.git", "deploy", "https://a.example/b.git//", "//x"]
)
def test_a_source_without_a_folder_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write URL//FOLDER"):
        argocd.Source.parse(text)

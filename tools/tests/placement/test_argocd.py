"""The ApplicationSets for Argo CD: kubectl, which has Go templates, carries out their templates,
and Kustomize the patches. What Argo CD would apply is exactly what is placed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from placed import follower, placement

from fairlead.common import paths
from fairlead.common.errors import InputError, UsageError
from fairlead.placement import argocd, names, sources
from fairlead.placement.placements import Placement
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


def run(folder: Path, program: str | Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(program), *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def applied(
    folder: Path,
    application_set: dict[str, Any],
    element: dict[str, Any],
    manifests: Iterable[dict[str, Any]],
    kustomization: dict[str, Any] | None = None,
) -> list[Any]:
    """What Argo CD would apply in the cluster of the element, of a folder with these manifests."""
    # kubectl prints any object by a template, if it has a kind.
    (folder / "element.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}, **element})
    )
    (folder / "template").write_text(application_set["spec"]["templatePatch"])
    programs = toolchain.ensure(["kubectl", "kustomize"])
    local = ("annotate", "--local", "-f", "element.json", "a=b")
    patch = yaml.safe_load(
        run(folder, programs["kubectl"], *local, "-o", "go-template-file=template")
    )
    (folder / "app.yaml").write_text(yaml.safe_dump_all(manifests))
    built = {
        "resources": ["app.yaml"],
        **(kustomization or {}),
        **patch["spec"]["source"]["kustomize"],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(built))
    return list(yaml.safe_load_all(run(folder, programs["kustomize"], "build", ".")))


def held(
    folder: Path, placements: list[Placement], *further: dict[str, Any]
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """What each Application holds, by its ApplicationSet and its cluster, of a folder with the
    manifests of these placements and `further` ones.
    """
    manifests = [*(each.document.value for each in placements), *further]
    return {
        (application_set["metadata"]["name"], element["cluster"]): applied(
            folder, application_set, element, manifests
        )
        for application_set in argocd.application_sets(placements, SOURCE)
        for element in application_set["spec"]["generators"][0]["list"]["elements"]
    }


def titles(objects: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(
        f"{each['kind']} {each['metadata'].get('namespace', '')}/{each['metadata']['name']}"
        for each in objects
    )


def test_each_cluster_gets_its_workloads_alone_with_its_share_of_the_pods(tmp_path: Path) -> None:
    (application_set,) = argocd.application_sets(PLACEMENTS, SOURCE)
    Draft7Validator(SCHEMA).validate(application_set)
    specs = {
        cluster: {(each["kind"], each["metadata"]["name"]): each["spec"] for each in objects}
        for (_, cluster), objects in held(tmp_path, PLACEMENTS).items()
    }
    assert specs == {
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


def test_an_application_holds_what_is_placed_of_its_namespace_and_nothing_else(
    tmp_path: Path,
) -> None:
    """Objects of the same name in other namespaces, of no namespace, and what nobody decided on."""
    placements = [
        placement({"eu": 1}),
        placement({"us": 1}, namespace="shop-2"),
        placement({"us": 1}, namespace="default", kind="StatefulSet"),
        follower(["eu"]),
        follower(["us"], namespace="shop-2"),
        follower(["eu"], kind="Namespace", name="shop", namespace=""),
        follower(["us"], kind="Namespace", name="shop-2", namespace=""),
        follower(["eu", "us"], kind="Issuer", api_version="example.com/v1", namespace=""),
        follower(["us"], kind="Cache", api_version="example.com/v1", namespace="shop-2"),
        follower([], kind="ConfigMap", name="nowhere"),
    ]
    del placements[2].document.value["metadata"]["namespace"]  # as people write it
    stranger = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}}
    marked = {**stranger, "metadata": {"name": "m", "annotations": {"fairlead.dev/placed": ""}}}
    objects = held(tmp_path, placements, stranger, marked)
    assert {key: titles(each) for key, each in objects.items()} == {
        ("cluster-scoped.objects", "eu"): ["Issuer /web"],
        ("cluster-scoped.objects", "us"): ["Issuer /web"],
        ("default", "us"): ["StatefulSet /web"],
        ("shop", "eu"): ["Deployment shop/web", "Namespace /shop", "Secret shop/web"],
        ("shop-2", "us"): [
            *(
                "Cache shop-2/web",
                "Deployment shop-2/web",
                "Namespace /shop-2",
                "Secret shop-2/web",
            ),
        ],
    }
    assert "annotations" not in json.dumps(list(objects.values())), "nothing is left of the mark"


def test_kinds_of_the_same_name_in_other_groups_are_not_taken_for_each_other(
    tmp_path: Path,
) -> None:
    placements = [
        follower(["eu", "us"], kind="Service"),
        follower(["eu"], kind="Service", api_version="serving.knative.dev/v1"),
        follower(["us"], kind="Ingress", api_version="networking.k8s.io/v1"),
        follower(["eu"], kind="Ingress", api_version="networking.k8sxio/v1"),
    ]
    objects = {
        cluster: sorted(f"{each['kind']} of {each['apiVersion']}" for each in parts)
        for (_, cluster), parts in held(tmp_path, placements).items()
    }
    assert objects == {
        "eu": [
            *("Ingress of networking.k8sxio/v1", "Service of serving.knative.dev/v1"),
            "Service of v1",
        ],
        "us": ["Ingress of networking.k8s.io/v1", "Service of v1"],
    }


def test_annotations_stay_and_an_autoscaler_sets_the_replicas(tmp_path: Path) -> None:
    scaled = placement({"eu": 1}, changes={"fields": {"eu": {"replicas": None}}})
    scaled.document.value["metadata"]["annotations"] = {"owner": "ada"}
    ((_, (deployment,)),) = held(tmp_path, [scaled]).items()
    assert deployment["metadata"]["annotations"] == {"owner": "ada"}
    assert "replicas" not in deployment.get("spec", {})


def test_a_base_with_a_namespace_is_found_and_what_comes_after_the_patches_is_refused(
    tmp_path: Path,
) -> None:
    """Kustomize changes names and replicas of a kustomization after its patches."""
    web = placement({"eu": 1}).document.value
    base, folder = tmp_path / "base", tmp_path / "folder"
    base.mkdir()
    folder.mkdir()
    del web["metadata"]["namespace"]
    (base / "web.yaml").write_text(yaml.safe_dump(web))
    (base / "kustomization.yaml").write_text("namespace: shop\nresources: [web.yaml]\n")
    (application_set,) = argocd.application_sets([placement({"eu": 1})], SOURCE)
    (element,) = application_set["spec"]["generators"][0]["list"]["elements"]
    built = applied(folder, application_set, element, [], {"resources": ["../base"]})
    assert titles(built) == ["Deployment shop/web"]

    sources.require_patchable([folder, folder / "app.yaml"])
    for key in ("namespace: shop", "namePrefix: a-", "replicas: [{name: web, count: 6}]"):
        (base / "kustomization.yaml").write_text(f"resources: [web.yaml]\n{key}\n")
        with pytest.raises(InputError, match=r"kustomization\.yaml:2: \w+ comes after the patches"):
            sources.require_patchable([base])


def test_no_two_applications_share_a_name_and_all_fit_into_a_label() -> None:
    pairs = [
        *(("shop", "eu-west"), ("shop-eu", "west"), ("shop", "eu.west")),
        *(("a" * 63, "b" * 70), ("a" * 63, "b" * 71), ("a" * 62, "ab")),
    ]
    sets = argocd.application_sets(
        [
            placement({"eu": 1}),
            follower(["eu"], kind="Issuer", api_version="example.com/v1", namespace=""),
        ],
        SOURCE,
    )
    for each in sets:
        Draft7Validator(SCHEMA).validate(each)
    applications = [
        element["application"]
        for namespace, cluster in pairs
        for application_set in argocd.application_sets(
            [placement({cluster: 1}, namespace=namespace)], SOURCE
        )
        for element in application_set["spec"]["generators"][0]["list"]["elements"]
    ]
    assert len({*applications}) == len(pairs)
    assert all(len(name) <= names.LONGEST for name in applications)


def test_project_and_namespace_are_those_of_argo_cd() -> None:
    (application_set,) = argocd.application_sets(
        PLACEMENTS, SOURCE, argocd.Place("gitops", "tenants")
    )
    assert application_set["metadata"]["namespace"] == "gitops"
    assert application_set["spec"]["template"]["spec"]["project"] == "tenants"


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
    """What Argo CD runs of it stays as it is."""
    failed = placement({}, name="api", errors={"customer": ["nobody names one"]})
    other = placement({"eu": 1}, namespace="other")
    sets = argocd.application_sets([*PLACEMENTS, failed, other], SOURCE)
    assert [each["metadata"]["name"] for each in sets] == ["other"]
    orphan = follower([], kind="Issuer", namespace="", errors={"object": ["nobody can tell"]})
    assert argocd.application_sets([orphan, follower(["eu"], namespace="")], SOURCE) == []


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

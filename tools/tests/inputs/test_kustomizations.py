"""Folders with kustomizations: the real kustomize builds them, and each object keeps its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.inputs import manifest_files
from fairlead.inputs.manifest_files import Reading

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
PATCH = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {nodeSelector: {agentpool: gpu}}}}
"""
REMOVAL = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n$patch: delete\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base and an overlay, as most repositories have them."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "base/kustomization.yaml": "resources: [web.yaml]\n",
        "base/web.yaml": f"# the service\n{SERVICE}---\n{DEPLOYMENT}",
        "overlays/kustomization.yaml": (
            "namespace: shop\nnamePrefix: eu-\nresources: [../base]\n"
            "patches: [{path: gpu.yaml}, {path: removal.yaml}]\n"
        ),
        "overlays/gpu.yaml": PATCH,
        "overlays/removal.yaml": REMOVAL,
    }.items():
        (tmp_path / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repo" / name).write_text(text)
    return Path("repo")


def objects(reading: Reading) -> list[tuple[str, int | None, str, Any, str]]:
    return [
        (
            str(document.path),
            document.line(()),
            document.value["kind"],
            document.value["metadata"].get("namespace"),
            document.value["metadata"]["name"],
        )
        for document in reading.all_readable()
    ]


def test_the_objects_are_those_that_kustomize_makes_and_have_their_places(
    repository: Path,
) -> None:
    reading = manifest_files.read([repository])
    assert objects(reading) == [("repo/base/web.yaml", 6, "Deployment", "shop", "eu-web")]
    (document,) = reading.documents
    assert document.value["spec"]["template"]["spec"]["nodeSelector"] == {"agentpool": "gpu"}
    assert "annotations" not in document.value["metadata"]
    assert document.line(["metadata", "name"]) == 9
    assert reading.skipped == []


def test_of_names_that_hold_one_another_each_object_has_its_own_line(repository: Path) -> None:
    """The name of one Deployment is a part of the other's."""
    base = repository / "base" / "web.yaml"
    base.write_text(base.read_text() + "---\n" + DEPLOYMENT.replace("name: web", "name: web-api"))
    lines = {name: line for _, line, _, _, name in objects(manifest_files.read([repository]))}
    assert lines["eu-web"] == 6
    assert lines["eu-web-api"] == base.read_text().splitlines().index("  name: web-api") - 2


def test_a_kustomization_that_is_a_dangling_link_is_told(repository: Path) -> None:
    (repository / "base" / "more").mkdir()
    (repository / "base" / "more" / "kustomization.yaml").symlink_to("nowhere")
    reading = manifest_files.read([repository])
    assert len(reading.documents) == 1
    (problem,) = reading.unreadable
    assert "more/kustomization.yaml: cannot be read (No such file or directory)" in str(problem)


def test_what_no_kustomization_names_is_judged_by_itself(repository: Path) -> None:
    (repository / "base" / "other.yaml").write_text(SERVICE.replace("web", "other"))
    assert ("repo/base/other.yaml", 1, "Service", None, "other") in objects(
        manifest_files.read([repository])
    )


def test_a_folder_that_kustomize_does_not_build_is_named_and_the_others_are_read(
    repository: Path,
) -> None:
    (repository / "overlays" / "gpu.yaml").unlink()
    (repository / "plain").mkdir()
    (repository / "plain" / "service.yaml").write_text(SERVICE)
    reading = manifest_files.read([repository])
    (problem,) = reading.unreadable
    assert str(problem).startswith("repo/overlays/kustomization.yaml: kustomize does not build it")
    assert "gpu.yaml" in str(problem)
    assert "accumul" not in str(problem)
    assert [document.value["kind"] for document in reading.documents] == [
        *("Service", "Deployment"),  # of the base, which kustomize builds
        "Service",
    ]


def test_the_resources_of_a_build_that_fails_count_as_they_stand_and_its_patches_do_not(
    repository: Path,
) -> None:
    (repository / "base" / "kustomization.yaml").write_text(
        "resources: [web.yaml, missing.yaml]\npatches: [{path: removal.yaml}]\n"
    )
    (repository / "base" / "removal.yaml").write_text(REMOVAL)
    reading = manifest_files.read([repository])
    assert len(reading.unreadable) == 2
    assert all("its resources count as they stand" in str(each) for each in reading.unreadable)
    assert [document.line(()) for document in reading.documents] == [2, 6]
    assert {str(document.path) for document in reading.documents} == {"repo/base/web.yaml"}


def test_a_kustomization_that_is_named_as_a_file_is_told_so(repository: Path) -> None:
    (problem,) = manifest_files.read([repository / "base" / "kustomization.yaml"]).unreadable
    assert str(problem) == "repo/base/kustomization.yaml:1: is a kustomization: name its folder"


@pytest.mark.parametrize(
    "resource",
    [
        "https://example.com/app.yaml",
        "https://github.com/example/app//deploy?ref=v1",
        "git@github.com:example/app.git//deploy",
    ],
)
def test_nothing_is_fetched(repository: Path, resource: str) -> None:
    (repository / "base" / "kustomization.yaml").write_text(f"resources: ['{resource}']\n")
    problems = manifest_files.read([repository]).unreadable  # of the overlay, and of its base
    assert len(problems) == 2
    reason = f"its resources count as they stand: {resource} is elsewhere, and nothing is fetched"
    assert all(str(problem).endswith(reason) for problem in problems)


def test_a_kustomization_of_flux_is_an_object(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: apps}\n"
    )
    (document,) = manifest_files.read([tmp_path]).all_readable()
    assert document.value["metadata"]["name"] == "apps"


def test_a_component_is_built_where_it_is_named_and_told_where_it_is_not(repository: Path) -> None:
    (repository / "parts").mkdir()
    (repository / "parts" / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [x.yaml]\n"
    )
    (repository / "parts" / "x.yaml").write_text(SERVICE)
    reading = manifest_files.read([repository])
    assert [document.value["kind"] for document in reading.documents] == ["Deployment"]
    file = repository / "parts" / "kustomization.yaml"
    assert reading.skipped == [(file, manifest_files.UNUSED)]
    with (repository / "overlays" / "kustomization.yaml").open("a") as stream:
        stream.write("components: [../parts]\n")
    reading = manifest_files.read([repository])
    kinds = {document.value["kind"] for document in reading.documents}
    assert (kinds, reading.skipped) == ({"Deployment", "Service"}, [])


@pytest.mark.parametrize("text", ["a: [", "- a\n", "a: 1\n---\nb: 2\n"])
def test_a_broken_kustomization_is_told_once(tmp_path: Path, text: str) -> None:
    (tmp_path / "kustomization.yaml").write_text(text)
    (problem,) = manifest_files.read([tmp_path]).unreadable
    assert str(problem).startswith(f"{tmp_path}/kustomization.yaml:")


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("a", "b", "c")])
def test_kustomizations_that_name_each_other_in_a_circle_are_told(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    for name, following in zip(names, (*names[1:], names[0]), strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kustomization.yaml").write_text(f"resources: [../{following}]\n")
    problems = manifest_files.read([tmp_path]).unreadable
    assert [Path(str(problem.path)).parent.name for problem in problems] == list(names)
    assert all("cycle" in str(problem) for problem in problems)

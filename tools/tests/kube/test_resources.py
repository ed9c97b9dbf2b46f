"""The resources that can be replicated besides namespaces, and their replicated fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.common.errors import InputError
from fairlead.deployment import manifests, sidecars
from fairlead.deployment.credentials import Credentials
from fairlead.kube import resources
from fairlead.kube.resources import Resource
from fairlead.policy import fairlead_yaml
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "labels": {"app.io/x": "1", "y": "2"},
        "managedFields": [1],
    },
    "spec": {
        "nodeName": "n",
        "containers": [{"name": "a", "image": "i"}, {"name": "b"}],
        "restartPolicy": "Always",
    },
}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("v1/pods", "/api/v1/pods"),
        ("apps/v1/deployments", "/apis/apps/v1/deployments"),
        ("networking.k8s.io/v1beta1/ingresses", "/apis/networking.k8s.io/v1beta1/ingresses"),
    ],
)
def test_a_resource_is_named_as_for_kube_mgmt(text: str, path: str) -> None:
    resource = resources.parse(text, namespaced=True)
    assert (str(resource), resource.path) == (text, path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pods",
        "/v1/pods/",
        "a/b/c/d",
        "apps//deployments",
        "v1/Pods",
        "Apps/v1/x",
        "v1/pods/status",
        "v1/namespaces",
    ],
)
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|namespaces are"):
        resources.parse(text, namespaced=True)


@pytest.mark.parametrize("field", ["", ".", "a.", ".a", "a..b", " a"])
def test_what_is_no_field_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="is not a dotted path"):
        resources.parse("v1/pods", namespaced=True, fields=[field])


def test_two_resources_at_one_place_are_refused() -> None:
    both = [
        resources.parse(text, namespaced=True) for text in ("v1/events", "events.k8s.io/v1/events")
    ]
    with pytest.raises(ValueError, match="keep one"):
        resources.check_distinct(both)


def thin(*fields: str) -> dict[str, object]:
    return resources.parse("v1/pods", namespaced=True, fields=fields).thin(POD)


def test_a_whole_object_comes_without_managed_fields_only() -> None:
    metadata = {"name": "web", "namespace": "shop", "labels": {"app.io/x": "1", "y": "2"}}
    assert thin() == {**POD, "metadata": metadata}


def test_fields_are_kept_with_name_and_namespace() -> None:
    names = {"name": "web", "namespace": "shop"}
    assert thin("spec.nodeName") == {"metadata": names, "spec": {"nodeName": "n"}}
    assert thin(r"metadata.labels.app\.io/x") == {
        "metadata": {**names, "labels": {"app.io/x": "1"}}
    }
    assert thin("spec.none", "status.phase", "spec.nodeName.x") == {"metadata": names, "spec": {}}
    assert thin("spec.containers.name", "spec.containers.image") == {
        "metadata": names,
        "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b"}]},
    }
    assert thin("metadata.labels.y", "metadata.labels") == thin("metadata.labels")


@pytest.mark.parametrize(
    ("fields", "only"),
    [([], False), (["metadata.labels"], True), (["metadata.labels", "spec.x"], False)],
)
def test_metadata_is_asked_for_alone_where_that_suffices(fields: list[str], only: bool) -> None:
    assert resources.parse("v1/pods", namespaced=True, fields=fields).metadata_only is only


def test_flags_say_what_they_were_made_of() -> None:
    parsed = [
        resources.parse(
            "v1/pods", namespaced=True, fields=["spec.nodeName", r"metadata.labels.a\.b"]
        ),
        Resource("storage.k8s.io", "v1", "storageclasses", False),
    ]
    assert sidecars.replication(parsed) == [
        "--replicate=v1/pods",
        r"--replicate-fields=v1/pods=spec.nodeName,metadata.labels.a\.b",
        "--replicate-cluster=storage.k8s.io/v1/storageclasses",
    ]


CHOSEN = """replicate:
  - {version: v1, resource: pods, fields: [spec.nodeName]}
  - {group: storage.k8s.io, version: v1, resource: storageclasses, namespaced: false}
"""


def read(folder: Path, text: str) -> Settings:
    path = folder / "fairlead.yaml"
    path.write_text(text)
    return fairlead_yaml.load(path)


def test_settings_name_what_the_sidecar_replicates_and_may_read(tmp_path: Path) -> None:
    chosen = read(tmp_path, CHOSEN)
    rendered: list[dict[str, Any]] = manifests.render_objects(
        PolicySet.load(chosen), Credentials.fresh()
    )
    (sidecar,) = (
        container
        for deployment in rendered
        if deployment["kind"] == "Deployment"
        for container in deployment["spec"]["template"]["spec"]["containers"]
        if container["name"] == "sync"
    )
    assert [flag for flag in sidecar["args"] if flag.startswith("--replicate")] == [
        "--replicate=policy.fairlead.dev/v1/policyexceptions",
        "--replicate-fields=policy.fairlead.dev/v1/policyexceptions="
        "spec.intents,spec.objects,spec.until",
        "--replicate=v1/pods",
        "--replicate-fields=v1/pods=spec.nodeName",
        "--replicate-cluster=storage.k8s.io/v1/storageclasses",
    ]
    (role,) = (
        manifest
        for manifest in rendered
        if manifest["kind"] == "ClusterRole" and manifest["metadata"]["name"] == "fairlead-opa"
    )
    verbs = ["get", "list", "watch"]
    assert role["rules"][2:] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": verbs},
        {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": verbs},
    ]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            "replicate:\n  - {version: v1, resource: pods}\n  - {version: v1, resource: Pods}\n",
            3,
            "'Pods' is not a",
        ),
        ("replicate:\n  - version: v1\n    resource: namespaces\n", 2, "always replicated"),
        ("replicate:\n  - {resource: pods}\n", 2, "replicate[0].version is missing"),
        (
            "replicate:\n  - {version: v1, resource: pods, fields: [a..b]}\n",
            2,
            "'a..b' is not a dotted path",
        ),
        (
            "replicate:\n  - {version: v1, resource: a}\n  - {group: x, version: v1, resource: "
            "a}\n",
            1,
            "keep one",
        ),
        ("replicate: v1/pods\n", 1, "write a list"),
    ],
)
def test_what_cannot_be_replicated_is_told_with_its_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    with pytest.raises(InputError, match=rf"fairlead\.yaml:{line}: ") as caught:
        read(tmp_path, text)
    assert words in str(caught.value)

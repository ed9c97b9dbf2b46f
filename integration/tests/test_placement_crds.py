"""What `fairlead place` prints has only fields that the CustomResourceDefinitions of Karmada and
Argo CD have: an API server with Karmada's own accepts it, and Argo CD's own schema does."""

from __future__ import annotations

from typing import Any

import left_out
import placed
import pytest
from applied import namespace_manifest
from jsonschema import Draft7Validator

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.demos import placement_crds
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.placement import argocd, karmada

PROFILES = ["bare"]
pytestmark = pytest.mark.embedded("it brings definitions of others")
PLACEMENTS = [
    placed.placement({"eu": 2, "us": 1.5}, name=kind.lower(), kind=kind)
    for kind in ("Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob")
] + [
    placed.follower(["eu", "us"]),
    placed.follower(["us"], kind="Issuer", api_version="example.com/v1", namespace=""),
]


@pytest.fixture(scope="module")
def objects(cluster: BareCluster) -> clients.Objects:
    """The API of a cluster with the namespace of the workloads."""
    objects = cluster.objects()
    objects.apply(namespace_manifest("shop"))
    return objects


def definitions(name: str) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions; the test is skipped if they are not to be had."""
    try:
        return placement_crds.definitions(name, Progress())
    except FairleadError as error:
        left_out.skip(name, str(error))


def require_strict(objects: clients.Objects, manifests: list[dict[str, Any]]) -> None:
    """All are accepted, and an unknown field of the first is not."""
    placement_crds.apply(objects, manifests)
    wrong = {**manifests[0], "spec": {**manifests[0]["spec"], "unknownField": 1}}
    with pytest.raises(Refused, match="unknownField"):
        objects.apply(wrong, dry_run=True)


def test_karmadas_own_definitions_accept_the_policies(objects: clients.Objects) -> None:
    placement_crds.install(objects, definitions("karmada"))
    require_strict(objects, karmada.policies(PLACEMENTS))


def without_others(schema: Any) -> Any:
    """The schema, which then refuses fields that it does not name, as strict validation does."""
    if isinstance(schema, list):
        return [without_others(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: without_others(part) for key, part in schema.items()}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed


def test_argo_cds_own_schema_has_the_fields_of_the_application_sets() -> None:
    (definition,) = definitions("argocd")
    schema = without_others(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    source = argocd.Source("https://git.example.com/shop.git", "deploy", "main")
    application_set, *_ = argocd.application_sets(PLACEMENTS, source)
    Draft7Validator(schema).validate(application_set)
    application_set["spec"]["template"]["spec"]["unknownField"] = 1
    assert not Draft7Validator(schema).is_valid(application_set)

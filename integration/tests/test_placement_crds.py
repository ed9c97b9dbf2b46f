"""What `fairlead place` prints has only fields that the CustomResourceDefinitions of Karmada and
Argo CD have: an API server with Karmada's own accepts it, and Argo CD's own schema does.

They come from the Go module proxy, or from a checkout that FAIRLEAD_KARMADA or FAIRLEAD_ARGOCD
names.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import left_out
import placed
import pytest
import yaml
from applied import namespace_manifest
from jsonschema import Draft7Validator
from waits import until

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.errors import FairleadError
from fairlead.federation import argocd, karmada
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.programs import toolchain

PROFILES = ["bare"]
pytestmark = pytest.mark.embedded("it brings definitions of others")
MODULES = {
    "KARMADA": ("github.com/karmada-io/karmada", "v1.16.0", "charts/karmada/_crds/bases/policy"),
    "ARGOCD": ("github.com/argoproj/argo-cd/v3", "v3.3.19", "manifests/crds"),
}
FILES = {
    "KARMADA": (
        "policy.karmada.io_propagationpolicies.yaml",
        "policy.karmada.io_overridepolicies.yaml",
    ),
    "ARGOCD": ("applicationset-crd.yaml",),
}
PLACEMENTS = [
    placed.placement({"eu": 2, "us": 1.5}, name=kind.lower(), kind=kind)
    for kind in ("Deployment", "StatefulSet", "ReplicaSet", "Job")
]


@pytest.fixture(scope="module")
def objects(cluster: BareCluster) -> clients.Objects:
    """The API of a cluster with the namespace of the workloads."""
    objects = cluster.objects()
    objects.apply(namespace_manifest("shop"))
    return objects


def definitions(name: str) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions; the test is skipped if they are not to be had."""
    module, version, folder = MODULES[name]
    try:
        checkout = os.environ.get(f"FAIRLEAD_{name}")
        root = Path(checkout) if checkout else toolchain.released(module, version)
    except FairleadError as error:
        left_out.skip(module, f"{error}\nOr name a checkout by FAIRLEAD_{name}")
    # By libyaml: Argo CD's has more than a megabyte.
    texts = [(root / folder / file).read_text() for file in FILES[name]]
    return [yaml.load(text, Loader=yaml.CSafeLoader) for text in texts]


def install(objects: clients.Objects) -> None:
    """Install Karmada's CustomResourceDefinitions."""
    for definition in definitions("KARMADA"):
        objects.apply(definition)

        def established(definition: Any = definition) -> bool:
            live = objects.get(
                definition["apiVersion"], definition["kind"], definition["metadata"]["name"]
            )
            conditions = ((live or {}).get("status") or {}).get("conditions") or ()
            return ("Established", "True") in {
                (condition["type"], condition["status"]) for condition in conditions
            }

        until(established, what="the definition is established")


def require_strict(objects: clients.Objects, manifests: list[dict[str, Any]]) -> None:
    """All are accepted, and an unknown field of the first is not."""

    def accepted() -> bool:
        for manifest in manifests:
            objects.apply(manifest)
        return True

    # An API server serves a new kind some time after it is established.
    until(accepted, what="the API server accepts the objects")
    wrong = {**manifests[0], "spec": {**manifests[0]["spec"], "unknownField": 1}}
    with pytest.raises(Refused, match="unknownField"):
        objects.apply(wrong, dry_run=True)


def test_karmadas_own_definitions_accept_the_policies(objects: clients.Objects) -> None:
    install(objects)
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
    (definition,) = definitions("ARGOCD")
    schema = without_others(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    source = argocd.Source("https://git.example.com/shop.git", "deploy", "main")
    (application_set,) = argocd.application_sets(PLACEMENTS, source)
    Draft7Validator(schema).validate(application_set)
    application_set["spec"]["template"]["spec"]["unknownField"] = 1
    assert not Draft7Validator(schema).is_valid(application_set)

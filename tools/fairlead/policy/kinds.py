"""Makes the schemas by which `opa check` knows the fields of objects, one for each kind.

Those of Kubernetes' kinds are in tools/schemas, made by integration/tests/openapi_kinds.py. Those
of CustomResourceDefinitions are made here. A policy names them in its METADATA:
`schema.kubernetes.core.v1.Pod`, `schema.crds.example.v1.Widget`; of an API group, the name has the
part before the first dot.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any


def of_crd(manifest: Mapping[str, Any]) -> dict[PurePosixPath, dict[str, Any]]:
    """The schemas of a CustomResourceDefinition's versions, by their files below tools/schemas.
    Raises KeyError, TypeError for a malformed one.
    """
    spec = manifest["spec"]
    group, kind = spec["group"].split(".")[0], spec["names"]["kind"]
    schemas = {}
    for version in spec["versions"]:
        schema = types_of(version["schema"]["openAPIV3Schema"])
        if "properties" in schema:
            general: dict[str, Any] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
            schema["properties"] = {**schema["properties"], **general, "metadata": _METADATA}
        schemas[PurePosixPath("crds", group, version["name"], f"{kind}.json")] = schema
    return schemas


_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_NUMBER = {"type": "integer"}
_METADATA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "annotations": _TEXTS,
        "creationTimestamp": _TEXT,
        "deletionGracePeriodSeconds": _NUMBER,
        "deletionTimestamp": _TEXT,
        "finalizers": {"type": "array", "items": _TEXT},
        "generateName": _TEXT,
        "generation": _NUMBER,
        "labels": _TEXTS,
        "managedFields": {"type": "array", "items": {}},
        "name": _TEXT,
        "namespace": _TEXT,
        "ownerReferences": {"type": "array", "items": {}},
        "resourceVersion": _TEXT,
        "uid": _TEXT,
    },
}


def types_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a schema that are about types. An object has the listed fields only.

    What can be a number or a text, as quantities can in manifests, has no type.
    """
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    either = schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string"
    if either or schema.get("x-kubernetes-preserve-unknown-fields"):
        return {}
    typed = {"type": schema["type"]} if "type" in schema else {}
    if "properties" in schema:
        typed["additionalProperties"] = False
        typed["properties"] = {
            name: types_of(part) for name, part in sorted(schema["properties"].items())
        }
    elif isinstance(schema.get("additionalProperties"), dict):
        typed["additionalProperties"] = types_of(schema["additionalProperties"])
    if isinstance(schema.get("items"), dict):
        typed["items"] = types_of(schema["items"])
    return typed

"""Makes the schemas by which `opa check` knows the fields of objects, one for each kind.

They come from an API server's OpenAPI, and from CustomResourceDefinitions. A policy names them in
its METADATA: `schema.kubernetes.core.v1.Pod`, `schema.crds.example.v1.Widget`; of an API group, the
name has the part before the first dot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

# The schema of a CustomResourceDefinition contains itself, which OPA does not support.
_RECURSIVE = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_REFERENCE = "#/definitions/"


def of_openapi(document: Mapping[str, Any]) -> dict[PurePosixPath, dict[str, Any]]:
    """The schemas of the stable kinds in an OpenAPI v2 document (`/openapi/v2`), by their files
    below tools/schemas.
    """
    definitions = document["definitions"]
    schemas = {}
    for name, definition in definitions.items():
        kinds = definition.get("x-kubernetes-group-version-kind", [])
        if "metadata" not in definition.get("properties", {}) or len(kinds) != 1:
            continue
        (kind,) = kinds
        needs = _needed(name, definitions)
        if kind["kind"].endswith("List") or not _stable(kind["version"]) or _RECURSIVE in needs:
            continue
        group = kind["group"].split(".")[0] or "core"
        path = PurePosixPath("kubernetes", group, kind["version"], f"{kind['kind']}.json")
        schemas[path] = {
            **_typed(definition),
            "definitions": {need: _typed(definitions[need]) for need in sorted(needs - {name})},
        }
    return schemas


def of_crd(manifest: Mapping[str, Any]) -> dict[PurePosixPath, dict[str, Any]]:
    """The schemas of a CustomResourceDefinition's versions, by their files below tools/schemas.
    Raises KeyError, TypeError for a malformed one.
    """
    spec = manifest["spec"]
    group, kind = spec["group"].split(".")[0], spec["names"]["kind"]
    schemas = {}
    for version in spec["versions"]:
        schema = _typed(version["schema"]["openAPIV3Schema"])
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


def _stable(version: str) -> bool:
    return "alpha" not in version and "beta" not in version


def _needed(name: str, definitions: Mapping[str, Any]) -> set[str]:
    """The names of a definition and of all that it refers to."""
    needs: set[str] = set()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in needs:
            needs.add(name)
            waiting += _references(definitions[name])
    return needs


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].removeprefix(_REFERENCE)
        for part in value.values():
            yield from _references(part)


def _typed(schema: Mapping[str, Any]) -> dict[str, Any]:
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
            name: _typed(part) for name, part in sorted(schema["properties"].items())
        }
    elif isinstance(schema.get("additionalProperties"), dict):
        typed["additionalProperties"] = _typed(schema["additionalProperties"])
    if isinstance(schema.get("items"), dict):
        typed["items"] = _typed(schema["items"])
    return typed

"""Makes the schemas below tools/schemas/kubernetes from an API server's OpenAPI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from fairlead.policy.kinds import types_of

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
            **types_of(definition),
            "definitions": {need: types_of(definitions[need]) for need in sorted(needs - {name})},
        }
    return schemas


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

"""Structural schemas, by which API servers check custom resources, from the schemas that pydantic
makes of models.

Source: Kubernetes documentation, "Extend the Kubernetes API with CustomResourceDefinitions",
"Specifying a structural schema". What such a schema cannot say, the model itself says later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
_KEPT = (
    *("type", "enum", "pattern", "format", "required", "minimum", "maximum", "minItems"),
    *("maxItems", "minLength", "maxLength"),
)
"""What both kinds of schema have in common, and mean alike."""
_NULL = {"type": "null"}
_ATTRIBUTE = re.compile(r"`([a-z]+(?:_[a-z]+)*_?)`")


def of_model(model: type[BaseModel], *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The structural schema of a model, with its fields as people write them, but for those named
    in `without`.
    """
    document = model.model_json_schema(by_alias=True)
    schema = _schema(document, document.get("$defs", {}))
    for name in without:
        del schema["properties"][name]
    return schema


def _schema(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    reference = part.get("$ref")
    if reference is not None:
        definition = definitions[reference.rpartition("/")[2]]
        return _schema(
            {**definition, **{key: part[key] for key in part if key != "$ref"}}, definitions
        )
    described = {"description": _reworded(part["description"])} if "description" in part else {}
    if "anyOf" in part:
        choices = [choice for choice in part["anyOf"] if choice != _NULL]
        if len(choices) > 1:
            return {**described, **_ANYTHING}
        nullable = {"nullable": True} if len(choices) < len(part["anyOf"]) else {}
        return {**_schema(choices[0], definitions), **described, **nullable}
    if not {"type", "enum", "const"} & part.keys():
        return {**described, **_ANYTHING}
    schema = {**described, **{key: part[key] for key in _KEPT if key in part}}
    for bound in ("minimum", "maximum"):
        if "e" in str(schema.get(bound, "")):  # 1e-06 is text to some that read YAML
            del schema[bound]
    if "const" in part:
        schema["enum"] = [part["const"]]
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in part:  # a number in JSON Schema, and here a word about the bound
            schema |= {bound: part[exclusive], exclusive: True}
    if "items" in part:
        schema["items"] = _schema(part["items"], definitions)
    if part.get("type") == "object":
        schema |= _of_object(part, definitions)
    return schema


def _of_object(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """What a schema says of the keys. A mapping cannot restrict their names; the model does."""
    if "properties" in part:
        properties = part["properties"].items()
        return {"properties": {name: _schema(value, definitions) for name, value in properties}}
    (values,) = part.get("patternProperties", {}).values() or (
        part.get("additionalProperties", True),
    )
    if values is True or values == {}:
        return _ANYTHING
    return {"additionalProperties": _schema(values, definitions)}


def _reworded(text: str) -> str:
    """A docstring for `kubectl explain`: each paragraph in one line, and fields with the names that
    people write.
    """
    paragraphs = re.split(r"\n\s*\n", text)
    joined = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return _ATTRIBUTE.sub(lambda name: f"`{to_camel(name[1])}`", joined)

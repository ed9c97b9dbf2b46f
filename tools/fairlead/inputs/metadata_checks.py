"""Finds what no API server accepts in the metadata of an object and of the pods that it makes, and
in the object's apiVersion and kind; and variables in nodeSelectors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fairlead.common.errors import InputError
from fairlead.common.yaml_files import Document
from fairlead.kube import labels, pod_templates

VARIABLE = re.compile(r"\$\{\w+")
"""How what Flux and envsubst replace begins."""
_TEMPLATE = re.compile(r"\{\{.*?\}\}")
_TYPE = ("apiVersion", "kind")
_NAMES = ("name", "generateName", "namespace")


def problem(document: Document) -> InputError | None:
    """What is wrong with the kind, or the first name, label, annotation or nodeSelector. Kinds,
    names and nodeSelectors are searched for variables alone: what else they may hold depends on the
    kind, or is for policies to say.
    """
    for key in _TYPE:
        try:
            of_variable(str(document.value.get(key)))
        except ValueError as error:
            return InputError(document.path, f"{key}: {error}", line=document.line([key]))
    for place in _places(document.value):
        for location, value in _values(document.value, place):
            try:
                _check(location, value)
            except ValueError as error:
                name = ".".join((*place, location[0]))
                line = document.line((*place, *location))
                return InputError(document.path, f"{name}: {error}", line=line)
    return None


def of_variable(text: str) -> str:
    """`text`, if it has no variable. Raises ValueError."""
    if VARIABLE.search(text):
        raise ValueError(f"{text!r} is a variable: name the manifests with its value")
    if _TEMPLATE.search(text):
        raise ValueError(f"{text!r} is of a template: name what Helm or Jinja2 makes of it")
    return text


def _places(manifest: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Where there is metadata, or the spec of pods."""
    yield ("metadata",)
    group, _, version = str(manifest.get("apiVersion")).rpartition("/")
    kind = str(manifest.get("kind"))
    template = pod_templates.TEMPLATES.get((group, kind))
    if template and version == "v1":
        yield (*template, "metadata")
        yield (*template, "spec")
    elif (group, kind) == ("", "Pod"):
        yield ("spec",)


def _values(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The names, labels and annotations of the metadata at this place, or the nodeSelector of the
    spec there, each with its keys.
    """
    for key in place:
        value = value.get(key) if isinstance(value, dict) else None
    part = value if isinstance(value, dict) else {}
    is_spec = place[-1] == "spec"
    yield from (((key,), part.get(key, "")) for key in _NAMES if not is_spec)
    for field in ("nodeSelector",) if is_spec else ("labels", "annotations"):
        texts = part.get(field)
        if isinstance(texts, dict):
            yield from (((field, key), text) for key, text in texts.items())


def _check(location: tuple[str, ...], value: Any) -> None:
    """Raises ValueError. API servers read null as an empty text."""
    field, *keys = location
    if field in _NAMES or field == "nodeSelector":
        of_variable(str(value))
    elif field == "labels":
        labels.check_key(keys[0])
        labels.check_value(of_variable(_text(value, "a label value")))
    else:
        _text(value, "text")


def _text(value: Any, what: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    how = "write text" if isinstance(value, dict | list) else "quote it"
    raise ValueError(f"{json.dumps(value)} is not {what}: {how}")

"""Required labels: objects of some kinds have labels, with values as the settings want them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import re2

from fairlead.engines.python import pods
from fairlead.engines.python.api import Decision, Request, get, quoted
from fairlead.settings.models import Settings

_NOT_EMPTY = ".+"
_OWN = ("metadata", "labels")


def decide(request: Request, parameters: Mapping[str, Any], settings: Settings) -> Decision:
    """Refuse a new object that lacks a label, and an update that takes one away. Of pods that will
    lack one, by a template from before, an update warns.
    """
    if request.operation not in ("CREATE", "UPDATE"):
        return Decision()
    problems: list[str] = []
    left: list[str] = []
    for path in _label_paths(request, templates=parameters["templates"]):
        for label in parameters["labels"]:
            if _decides_about(request, path, label["key"]):
                problems += _problems(request, path, label)
            elif path != _OWN and "v1/Pod" in parameters["kinds"]:
                left += _problems(request, path, label)
    return pods.decision(request, settings.mode("required-labels"), problems, left)


def _label_paths(request: Request, *, templates: bool) -> Iterator[tuple[str, ...]]:
    """Where labels stand: those of the object, and those of the pods that a workload creates."""
    yield _OWN
    template = pods.template_path(request.kind)
    if templates and template:
        yield (*template, "metadata", "labels")


def _decides_about(request: Request, path: tuple[str, ...], key: str) -> bool:
    if request.operation == "CREATE":
        return True
    return bool(get(request.object, *path, key) != get(request.old_object, *path, key))


def _problems(request: Request, path: tuple[str, ...], label: Mapping[str, Any]) -> Iterator[str]:
    key, place = label["key"], ".".join(path)
    value = get(request.object, *path, key)
    if value is None:
        yield f'label "{key}" is missing: add it to {place} with {_expected(label)}'
    elif not _is_allowed(label, value):
        yield f'label "{key}" is {quoted(value)} in {place}: change it to {_expected(label)}'


def _is_allowed(label: Mapping[str, Any], value: str) -> bool:
    if label["values"]:
        return value in label["values"]
    return bool(re2.fullmatch(label["pattern"], value))


def _expected(label: Mapping[str, Any]) -> str:
    if label["values"]:
        values = ", ".join(f'"{value}"' for value in label["values"])
        return f"one of {values}"
    if label["pattern"] == _NOT_EMPTY:
        return "a value that is not empty"
    return f'a value that matches "{label["pattern"]}"'

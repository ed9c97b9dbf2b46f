"""Compares objects field by field: what a deployment applies, what is in the cluster, and what an
API server makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.deployment.names import POLICIES
from fairlead.policy import revision

# What API servers set where a manifest says nothing, by field.
_DEFAULTS: Mapping[str, Any] = {
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "reinvocationPolicy": "Never",
    "scope": "*",
    "apiGroup": "rbac.authorization.k8s.io",
}
ENVELOPE = ("apiVersion", "kind", "metadata", "status")
"""The fields of an object that are not its content."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class FieldChange:
    """A field that differs, by its path, such as `webhooks[node-pool.fairlead.dev].failurePolicy`,
    and its values, None where there is none. The values of a Secret are `hidden`.
    """

    path: str
    old: Any = None
    new: Any = None
    hidden: bool = False

    def document(self) -> dict[str, Any]:
        """{path, old, new}; for a Secret {path}."""
        values = {} if self.hidden else {"old": self.old, "new": self.new}
        return {"path": self.path, **values}


def between(
    manifest: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[FieldChange, ...]:
    """The fields that change when `manifest` is applied: `before` and `after` are the object as an
    API server returns it. Labels and annotations that others change meanwhile do not count.
    """
    changes: list[FieldChange] = []
    for part in ("labels", "annotations"):
        ours = manifest["metadata"].get(part) or {}
        old, new = (dict(side["metadata"].get(part) or {}) for side in (before, after))
        foreign = {key for key in new if key not in ours}
        changes += _differences(_without(old, foreign), _without(new, foreign), f"metadata.{part}")
    changes += _differences(_comparable(before), _comparable(after), "")
    return _shown(manifest, changes)


def from_manifest(
    manifest: Mapping[str, Any], live: Mapping[str, Any], *, exactly: bool
) -> tuple[FieldChange, ...]:
    """The fields in which `live` differs from `manifest`, as far as that can be told without an API
    server; CA bundles are left out, as they change with each renewal.

    With `exactly`, fields that the manifest does not have are differences, unless they are empty or
    have their default. Others may always add labels and annotations.
    """
    changes: list[FieldChange] = []
    for part in ("labels", "annotations"):
        expected = manifest["metadata"].get(part) or {}
        present = live["metadata"].get(part) or {}
        changes += _differences(
            {key: value for key, value in present.items() if key in expected},
            expected,
            f"metadata.{part}",
        )
    expected, actual = _explicit(_comparable(manifest)), _explicit(_comparable(live))
    changes += _differences(actual if exactly else _part(actual, expected), expected, "")
    return _shown(manifest, changes)


def content(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The object without its envelope."""
    return {field: value for field, value in manifest.items() if field not in ENVELOPE}


def _comparable(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The content. Policies are without the name of their revision, which is part of every key and
    package, and would make each module a difference.
    """
    fields = content(manifest)
    if (manifest["kind"], manifest["metadata"]["name"]) != ("ConfigMap", POLICIES):
        return fields
    modules = {
        revision.STAGED_KEY.sub("", key, count=1): revision.STAGE.sub("", text)
        for key, text in (fields.get("data") or {}).items()
    }
    return {**fields, "data": modules}


def _shown(manifest: Mapping[str, Any], changes: Sequence[FieldChange]) -> tuple[FieldChange, ...]:
    if manifest["kind"] != "Secret":
        return tuple(changes)
    return tuple(FieldChange(change.path, hidden=True) for change in changes)


def _without(mapping: Mapping[str, Any], keys: set[str]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _explicit(value: Any) -> Any:
    """`value` without CA bundles, and without what is empty or a default."""
    if isinstance(value, Mapping):
        return {
            key: _explicit(part)
            for key, part in value.items()
            if key != "caBundle" and part not in (None, [], _DEFAULTS.get(key))
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_explicit(part) for part in value]
    return value


def _part(present: Any, expected: Any) -> Any:
    """The part of `present` that `expected` also has: API servers and others add fields."""
    if isinstance(present, Mapping) and isinstance(expected, Mapping):
        return {key: _part(present[key], expected[key]) for key in expected if key in present}
    if isinstance(present, list) and isinstance(expected, list) and len(present) == len(expected):
        return [
            _part(item, counterpart) for item, counterpart in zip(present, expected, strict=True)
        ]
    return present


def _differences(old: Any, new: Any, path: str) -> Iterator[FieldChange]:
    """Where two JSON values differ; items with a name are compared by it, and JSON in a text is
    compared as such.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key), new.get(key), _below(path, key))
    elif isinstance(old, list) and isinstance(new, list):
        old_items, new_items = _by_name(old), _by_name(new)
        if old_items is not None and new_items is not None:
            for name in sorted(old_items.keys() | new_items.keys()):
                yield from _differences(old_items.get(name), new_items.get(name), f"{path}[{name}]")
        elif len(old) == len(new):
            for number, (old_item, new_item) in enumerate(zip(old, new, strict=True)):
                yield from _differences(old_item, new_item, f"{path}[{number}]")
        else:
            yield FieldChange(path, old, new)
    elif old != new:
        documents = _json(old), _json(new)
        nested = [] if None in documents else list(_differences(*documents, path))
        yield from nested or [FieldChange(path, old, new)]


def _below(path: str, key: str) -> str:
    return f"{path}.{key}".lstrip(".") if _PLAIN.fullmatch(key) else f"{path}[{key}]"


def _json(text: Any) -> Any:
    """The value of a text that is a JSON object, else None."""
    if not isinstance(text, str) or not text.startswith("{"):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _by_name(items: list[Any]) -> dict[str, Any] | None:
    """The items by their names; None if not each is an object with a name of its own."""
    if not all(isinstance(item, dict) and "name" in item for item in items):
        return None
    by_name = {str(item["name"]): item for item in items}
    return by_name if len(by_name) == len(items) else None

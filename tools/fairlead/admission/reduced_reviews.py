"""Reduces reviews of objects that are too large for the policies, as OPA's proxy does
(tools/proxy/reduction.go)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fairlead.deployment import pod_sizes

_REVIEW = {"apiVersion": "fairlead.dev/v1", "kind": "ReducedReview"}
_OBJECTS = ("object", "oldObject")


def reduced(review: Any) -> Any:
    """The review, without its objects if one of them is too large."""
    request = review.get("request") if isinstance(review, dict) else None
    kind = request.get("kind") if isinstance(request, dict) else None
    if not isinstance(request, dict) or not isinstance(kind, dict):
        return review
    path = f"{kind.get('group') or ''}/{kind.get('kind')}"
    objects = {name: request[name] for name in _OBJECTS if name in request}
    if not any(pod_sizes.is_too_large(path, manifest) for manifest in objects.values()):
        return review
    new, old = (objects.get(name) for name in _OBJECTS)
    return {
        **_REVIEW,
        "changes": request.get("operation") != "UPDATE" or _judged(new) != _judged(old),
        "request": {**request, **{name: _names(manifest) for name, manifest in objects.items()}},
    }


def _judged(value: Any) -> Any:
    """What policies judge of an object: its spec, labels and annotations."""
    metadata = _part(_part(value, ("metadata",)).get("metadata"), ("labels", "annotations"))
    return _part(value, ("spec",)), metadata


def _names(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    names = _part(value, ("apiVersion", "kind", "metadata"))
    if "metadata" in names:
        names["metadata"] = _part(names["metadata"], ("name", "namespace", "generateName"))
    return names


def _part(value: Any, fields: Collection[str]) -> dict[str, Any]:
    """These fields of an object."""
    if not isinstance(value, Mapping):
        return {}
    return {name: value[name] for name in fields if name in value}

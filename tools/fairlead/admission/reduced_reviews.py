"""Reduces reviews of objects that are too large for the policies, as OPA's plugin does
(tools/plugin/reduction.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.deployment import review_limits
from fairlead.kube import admission_reviews

_REVIEW = {"apiVersion": "fairlead.dev/v1", "kind": "ReducedReview"}
_OBJECTS = ("object", "oldObject")


def reduced(review: Any) -> Any:
    """The review, without its objects if one of them is too large."""
    request = admission_reviews.request_of(review)
    kind = request.get("kind")
    if not isinstance(kind, dict):
        return review
    path = f"{kind.get('group') or ''}/{kind.get('kind')}"
    objects = {name: request[name] for name in _OBJECTS if name in request}
    if not any(review_limits.is_too_large(path, manifest) for manifest in objects.values()):
        return review
    new, old = (objects.get(name) for name in _OBJECTS)
    return {
        **_REVIEW,
        "changes": review_limits.changes(request.get("operation"), new, old),
        "request": {**request, **{name: _names(manifest) for name, manifest in objects.items()}},
    }


def _names(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    names = review_limits.part(value, ("apiVersion", "kind", "metadata"))
    if "metadata" in names:
        names["metadata"] = review_limits.part(
            names["metadata"], ("name", "namespace", "generateName")
        )
    return names

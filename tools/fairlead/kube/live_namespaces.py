"""Looks a namespace up as it is at this moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairlead.kube import api_paths
from fairlead.kube.api_requests import METADATA, ApiRequests


class LiveNamespace(NamedTuple):
    """What a namespace has at this moment; `version` is its resourceVersion."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    version: str


def look_up(api: ApiRequests, name: str) -> LiveNamespace | None:
    """The namespace `name`; None if there is none. Raises ApiServerError."""
    path = api_paths.joined("v1", None, "namespaces", name)
    namespace = api.find(path, accept=METADATA)
    if namespace is None:
        return None
    metadata = namespace.get("metadata") or {}
    return LiveNamespace(
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
        str(metadata.get("resourceVersion", "")),
    )

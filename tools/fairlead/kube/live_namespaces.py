"""Looks a namespace up as it is at this moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairlead.kube import api_paths
from fairlead.kube.clients import METADATA, Objects
from fairlead.kube.errors import ApiServerError


class LiveNamespace(NamedTuple):
    """What a namespace has at this moment; `version` is its resourceVersion."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    version: str


def look_up(api: Objects, name: str) -> LiveNamespace | None:
    """The namespace `name`; None if there is none. Raises ApiServerError."""
    path = api_paths.joined("v1", None, "namespaces", name)
    try:
        metadata = api.call("GET", path, accept=METADATA).get("metadata") or {}
    except ApiServerError as error:
        if error.status == 404:
            return None
        raise
    return LiveNamespace(
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
        str(metadata.get("resourceVersion", "")),
    )

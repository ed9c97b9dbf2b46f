"""Takes out of an object what an API server and its controllers have added to it, so that it can be
applied again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

METADATA = frozenset(
    {
        *("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation"),
        *("managedFields", "resourceVersion", "selfLink", "uid"),
    }
)
"""The metadata that API servers write themselves."""
FIELD_MANAGER = "fairlead"
"""The name under which API servers store what Fairlead applied."""
_OF_JOBS = frozenset(
    {
        *("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"),
        *("controller-uid", "job-name"),
    }
)
"""The labels that a Job and its pods get; its selector is made of them."""


def without(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The object without its status and the metadata of API servers."""
    return {
        **{key: value for key, value in stored.items() if key != "status"},
        "metadata": _without(stored.get("metadata"), METADATA),
    }


def written_again(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The same, and a Job without the selector and the labels that are made of its uid: no API
    server takes them in a new one.
    """
    manifest = without(stored)
    spec = stored.get("spec")
    if stored["kind"] != "Job" or not isinstance(spec, dict) or spec.get("manualSelector"):
        return manifest
    template = spec.get("template") or {}
    written = {key: value for key, value in spec.items() if key != "selector"}
    if isinstance(template, dict) and template.get("metadata"):
        written["template"] = {**template, "metadata": _without_labels(template["metadata"])}
    return {**manifest, "metadata": _without_labels(manifest["metadata"]), "spec": written}


def _without_labels(metadata: Any) -> Any:
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return {**metadata, "labels": _without(labels, _OF_JOBS)} if labels else metadata


def _without(value: Any, keys: frozenset[str]) -> dict[str, Any]:
    parts = value if isinstance(value, dict) else {}
    return {key: part for key, part in parts.items() if key not in keys}

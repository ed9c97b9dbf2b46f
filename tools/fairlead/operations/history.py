"""Stores the last revisions of the policies in the cluster, so that any machine can roll back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import UsageError
from fairlead.deployment import manifests
from fairlead.deployment.names import (
    NAMESPACE,
    PART_OF,
    POLICIES,
    REVISION_ANNOTATION,
    SETTINGS_ANNOTATION,
)
from fairlead.kube import clients
from fairlead.policy import bundles

KEPT = 10
"""The number of revisions to keep. Each is a ConfigMap of its own, as one may take up to 1 MiB."""

_LABEL = "fairlead.dev/history"
_SINCE = "fairlead.dev/since"


@dataclass(frozen=True)
class Entry:
    """A revision that came into force at `since` (RFC 3339); `manifest` is its ConfigMap."""

    revision: str
    since: str
    manifest: dict[str, Any]


def record(objects: clients.Objects, manifest: dict[str, Any]) -> None:
    """Add the policies' ConfigMap `manifest`, which is in force from now on, and delete all but the
    last KEPT entries.
    """
    revision = manifest["metadata"]["annotations"][REVISION_ANNOTATION]
    since = datetime.now(UTC).isoformat(timespec="microseconds")
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{POLICIES}-{revision}",
                "namespace": NAMESPACE,
                "labels": {_LABEL: "true", PART_OF: "fairlead"},
                "annotations": {**manifest["metadata"]["annotations"], _SINCE: since},
            },
            "data": manifest["data"],
        }
    )
    for entry in entries(objects)[KEPT:]:
        objects.delete("v1", "ConfigMap", f"{POLICIES}-{entry.revision}", NAMESPACE)


def entries(objects: clients.Objects) -> list[Entry]:
    """The entries, the latest first."""
    stored_entries = []
    for stored in objects.list("v1", "ConfigMap", NAMESPACE, f"{_LABEL}=true"):
        annotations = stored["metadata"].get("annotations") or {}
        revision = bundles.revision(stored.get("data") or {})
        # somebody changed it, so it is no entry any more
        if annotations.get(REVISION_ANNOTATION) == revision:
            stored_entries.append(
                Entry(revision, str(annotations.get(_SINCE, "")), _manifest(stored, annotations))
            )
    return sorted(stored_entries, key=lambda entry: entry.since, reverse=True)


def table(cluster: Cluster) -> list[dict[str, Any]]:
    """The entries of `cluster` as {revision, since, current}, the latest first. Raises
    FairleadError.
    """
    objects = cluster.objects()
    deployed = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {}
    current = bundles.revision(deployed.get("data") or {})
    return [
        {"revision": entry.revision, "since": entry.since, "current": entry.revision == current}
        for entry in entries(objects)
    ]


def find(objects: clients.Objects, revision: str | None, current: str) -> Entry:
    """The entry of `revision` (its first digits are enough), by default the latest that is not
    `current`.

    Raises UsageError if there is none; the error lists those that exist.
    """
    stored = entries(objects)
    if revision is None:
        matching = [entry for entry in stored if entry.revision != current][:1]
    else:
        matching = [entry for entry in stored if entry.revision.startswith(revision)]
    if len(matching) != 1:
        what = (
            "no earlier revision is kept"
            if revision is None
            else f"{revision!r} is not one revision that is kept"
        )
        raise UsageError(
            f"{what}: there are {', '.join(entry.revision for entry in stored) or 'none'}"
        )
    return matching[0]


def _manifest(stored: dict[str, Any], annotations: dict[str, Any]) -> dict[str, Any]:
    our_annotations = {
        key: annotations[key]
        for key in (REVISION_ANNOTATION, SETTINGS_ANNOTATION)
        if key in annotations
    }
    return manifests.policies_of(stored["data"], our_annotations)


def settings_of(manifest: dict[str, Any]) -> dict[str, Any] | None:
    """The settings that a policies' ConfigMap was made with, as in fairlead.yaml; None if it does
    not say.
    """
    try:
        settings = json.loads(manifest["metadata"]["annotations"][SETTINGS_ANNOTATION])
    except (KeyError, TypeError, ValueError):
        return None
    return settings if isinstance(settings, dict) else None

"""The history of a deployment: an entry for each push, rollback and deployment, kept in the cluster
so that any machine can roll back, one for each time that intents were disabled or enabled, and one
for the end of each exception.

The ConfigMap `fairlead-history` has the entries (fairlead.deployment.history_log), and each of the
last revisions has a ConfigMap of its own with the policies, as one may take up to 1 MiB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import texts
from fairlead.common.errors import UsageError
from fairlead.deployment import history_log, manifests, ownership
from fairlead.deployment.history_log import Entry
from fairlead.deployment.names import (
    NAMESPACE,
    POLICIES,
    REVISION_ANNOTATION,
    SETTINGS_ANNOTATION,
)
from fairlead.kube import clients, identity
from fairlead.policy import bundles
from fairlead.settings.models import FORMER

KEPT = 10
"""The number of revisions whose policies are kept."""
PREFIX = 4
"""The digits of a revision, at least, that name an entry."""

_LABEL = "fairlead.dev/history"
_SINCE = "fairlead.dev/since"


def record(
    objects: clients.Objects,
    manifest: dict[str, Any],
    action: str,
    message: str | None = None,
    *,
    restored: int | None = None,
) -> Entry:
    """Add an entry for the policies' ConfigMap `manifest`, which is in force from now on, and drop
    what is too old. Raises ApiServerError.
    """
    revision = manifest["metadata"]["annotations"][REVISION_ANNOTATION]
    now = datetime.now(UTC)
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{POLICIES}-{revision}",
                "namespace": NAMESPACE,
                "labels": ownership.labels({_LABEL: "true"}),
                "annotations": {
                    **manifest["metadata"]["annotations"],
                    _SINCE: now.isoformat(timespec="microseconds"),
                },
            },
            "data": manifest["data"],
        }
    )
    for stored in _revisions(objects)[KEPT:]:
        objects.delete("v1", "ConfigMap", stored["metadata"]["name"], NAMESPACE)
    entry = Entry(
        0,
        action,
        texts.time(now),
        identity.user(objects),
        message,
        revision,
        settings_of(manifest),
        restored,
    )
    return history_log.appended(objects, entry)


def entries(objects: clients.Objects) -> list[Entry]:
    """The entries of changes of policies and settings, the latest first. Raises ApiServerError."""
    return [entry for entry in _all(objects) if entry.is_change]


def _all(objects: clients.Objects) -> list[Entry]:
    """All entries, the latest first. Raises ApiServerError."""
    stored = {
        config_map["metadata"]["annotations"][REVISION_ANNOTATION]: config_map
        for config_map in _revisions(objects)
    }
    return [
        replace(entry, manifest=_manifest(entry, stored.get(entry.revision)))
        for entry in reversed(history_log.read(objects))
    ]


def current(entries: Sequence[Entry], deployed: Mapping[str, Any]) -> Entry | None:
    """The entry that brought the deployed ConfigMap; None if something else did."""
    revision, settings = bundles.revision(deployed.get("data") or {}), settings_of(deployed)
    return next(
        (
            entry
            for entry in entries
            if entry.revision == revision and settings in (entry.settings, None)
        ),
        None,
    )


def table(cluster: Cluster) -> list[dict[str, Any]]:
    """The entries of `cluster`, the latest first, as {number, time, by, action, message, revision,
    current, changed, policies, settings, intents, until}. Raises FairleadError.

    `changed` names what differs from the change before: "policies", or settings. `policies` says
    whether the policies are kept. Where intents were disabled or enabled, `intents` names them, and
    `until` is when they are enabled again by themselves (RFC 3339), None for never. Where an
    exception ended, `intents` are those that it was about, and `until` is its end. `revision`,
    `changed` and `settings` are None in both.
    """
    objects = cluster.objects()
    entries_ = _all(objects)
    changes = [entry for entry in entries_ if entry.is_change]
    in_force = current(changes, objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {})
    former = dict(zip((entry.number for entry in changes), changes[1:], strict=False))
    return [_row(entry, former.get(entry.number), entry is in_force) for entry in entries_]


def _row(entry: Entry, before: Entry | None, is_current: bool) -> dict[str, Any]:
    return {
        "number": entry.number,
        "time": entry.time,
        "by": entry.by,
        "action": entry.action,
        "message": entry.message,
        "revision": entry.revision or None,
        "current": is_current,
        "changed": changed(before, entry) if before else None,
        "policies": entry.manifest is not None,
        "settings": entry.settings,
        "intents": None if entry.is_change else list(entry.intents),
        "until": entry.until,
    }


def changed(before: Entry, after: Entry) -> list[str]:
    """What differs between two entries: "policies", or names of settings."""
    old, new = before.modules, after.modules
    if old is None or new is None:
        policies = before.revision != after.revision
    else:
        policies = {**old, bundles.SETTINGS: ""} != {**new, bundles.SETTINGS: ""}
    return [*(["policies"] if policies else []), *changed_settings(before, after)]


def changed_settings(before: Entry, after: Entry) -> list[str]:
    """The names of the settings that differ; none if they are not known."""
    if before.settings is None or after.settings is None:
        return []
    keys = sorted(before.settings.keys() | after.settings.keys())
    return [key for key in keys if before.settings.get(key) != after.settings.get(key)]


def find(entries: Sequence[Entry], reference: str) -> Entry:
    """The entry with this number, or the latest one whose revision begins so. A beginning has
    PREFIX digits or more: a shorter one may be meant as a number that does not exist.

    Raises UsageError if there is none; the error lists those that exist.
    """
    for entry in entries:
        if reference == str(entry.number):
            return entry
    matching = [entry for entry in entries if entry.revision.startswith(reference)]
    if len(reference) < PREFIX or len({entry.revision for entry in matching}) != 1:
        listing = ", ".join(f"{entry.number} ({entry.revision})" for entry in entries)
        raise UsageError(
            f"{reference!r} is neither the number of an entry nor the beginning of one revision "
            f"(at least {PREFIX} digits): there are {listing or 'none'}"
        )
    return matching[0]


def before(entries: Sequence[Entry], revision: str) -> Entry:
    """The latest entry with other policies than `revision` that are kept. Raises UsageError if
    there is none.
    """
    for entry in entries:
        if entry.revision != revision and entry.manifest is not None:
            return entry
    raise UsageError("no earlier revision is kept: `fairlead history` shows what is")


def settings_of(manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """The settings that a policies' ConfigMap was made with, as in fairlead.yaml; None if it does
    not say.
    """
    try:
        settings = json.loads(manifest["metadata"]["annotations"][SETTINGS_ANNOTATION])
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(settings, dict):
        return None
    return {key: value for key, value in settings.items() if key != FORMER}


def _revisions(objects: clients.Objects) -> list[dict[str, Any]]:
    """The ConfigMaps of the revisions, the last one in force first. What somebody changed is no
    revision any more.
    """
    stored = [
        config_map
        for config_map in objects.list("v1", "ConfigMap", NAMESPACE, f"{_LABEL}=true")
        if (config_map["metadata"].get("annotations") or {}).get(REVISION_ANNOTATION)
        == bundles.revision(config_map.get("data") or {})
    ]
    return sorted(stored, key=_since, reverse=True)


def _since(config_map: Mapping[str, Any]) -> str:
    return str(config_map["metadata"]["annotations"].get(_SINCE, ""))


def _manifest(entry: Entry, stored: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The policies' ConfigMap of an entry, with the entry's own settings."""
    if stored is None:
        return None
    annotations = {**manifests.recorded(stored), REVISION_ANNOTATION: entry.revision}
    annotations.pop(SETTINGS_ANNOTATION, None)
    if entry.settings is not None:
        annotations[SETTINGS_ANNOTATION] = json.dumps(entry.settings)
    return manifests.policies_of(stored["data"], annotations)

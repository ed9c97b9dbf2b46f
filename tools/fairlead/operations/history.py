"""The history of a deployment: an entry for each push, rollback and deployment, kept in the cluster
so that any machine can roll back.

The ConfigMap `fairlead-history` has the entries, and each of the last revisions has a ConfigMap of
its own with the policies, as one may take up to 1 MiB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import texts
from fairlead.common.digests import digest
from fairlead.common.errors import UsageError
from fairlead.deployment import manifests
from fairlead.deployment.names import (
    ENGINE_ANNOTATION,
    HISTORY,
    NAMESPACE,
    PART_OF,
    POLICIES,
    REVISION_ANNOTATION,
    SETTINGS_ANNOTATION,
)
from fairlead.kube import clients, identity
from fairlead.policy import bundles
from fairlead.policy.revision import plain

KEPT = 10
"""The number of revisions whose policies are kept."""
PREFIX = 4
"""The digits of a revision, at least, that name an entry."""
ENTRIES = 100
"""The number of entries that are kept."""
LARGEST = 700_000
"""The most characters of all entries together; a ConfigMap takes 1 MiB."""

_LABEL = "fairlead.dev/history"
_SINCE = "fairlead.dev/since"
_ENTRY, _SETTINGS = "entry-", "settings-"  # how keys of the log begin
_TYPES: Mapping[str, Any] = {
    "action": str,
    "time": str,
    "by": str | None,
    "message": str | None,
    "revision": str,
    "restored": int | None,
}
"""What the log has of an entry, besides its settings; somebody may have edited it."""


@dataclass(frozen=True)
class Entry:
    """A push, a rollback or a deployment.

    `time` is when it was in force (RFC 3339, to the second), `by` the API server's user. `restored`
    is the number of the entry that a rollback brought back. `manifest` is the policies' ConfigMap,
    None if it is kept no more.
    """

    number: int
    action: str
    time: str
    by: str | None
    message: str | None
    revision: str
    settings: dict[str, Any] | None
    restored: int | None = None
    manifest: dict[str, Any] | None = None

    @property
    def title(self) -> str:
        """How messages name the entry."""
        by = f", by {self.by}" if self.by else ""
        message = f": {self.message}" if self.message else ""
        return f"entry {self.number} (revision {self.revision}, {self.time}{by}{message})"

    @property
    def modules(self) -> dict[str, str] | None:
        """The policies as they were written, by ConfigMap key; None if they are kept no more."""
        return None if self.manifest is None else plain(self.manifest["data"])


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
                "labels": {_LABEL: "true", PART_OF: "fairlead"},
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
    return _appended(objects, entry)


def entries(objects: clients.Objects) -> list[Entry]:
    """The entries, the latest first. Raises ApiServerError."""
    stored = {
        config_map["metadata"]["annotations"][REVISION_ANNOTATION]: config_map
        for config_map in _revisions(objects)
    }
    return [
        replace(entry, manifest=_manifest(entry, stored.get(entry.revision)))
        for entry in reversed(_logged(_log(objects)))
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
    current, changed, policies, settings}. Raises FairleadError.

    `changed` names what differs from the entry before: "policies", or settings. `policies` says
    whether the policies are kept.
    """
    objects = cluster.objects()
    entries_ = entries(objects)
    in_force = current(entries_, objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {})
    return [
        {
            "number": entry.number,
            "time": entry.time,
            "by": entry.by,
            "action": entry.action,
            "message": entry.message,
            "revision": entry.revision,
            "current": entry is in_force,
            "changed": changed(before, entry) if before else None,
            "policies": entry.manifest is not None,
            "settings": entry.settings,
        }
        for entry, before in zip(entries_, [*entries_[1:], None], strict=True)
    ]


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
    return settings if isinstance(settings, dict) else None


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
    annotations = {REVISION_ANNOTATION: entry.revision}
    if entry.settings is not None:
        annotations[SETTINGS_ANNOTATION] = json.dumps(entry.settings)
    present = stored["metadata"]["annotations"]
    annotations |= {key: present[key] for key in (ENGINE_ANNOTATION,) if key in present}
    return manifests.policies_of(stored["data"], annotations)


def _time(stored: str) -> str:
    """A stored time in the form that commands print; empty if it cannot be read."""
    try:
        return texts.time(datetime.fromisoformat(stored))
    except ValueError:
        return ""


def _log(objects: clients.Objects) -> dict[str, Any]:
    return objects.get("v1", "ConfigMap", HISTORY, NAMESPACE) or {}


def _logged(log: Mapping[str, Any]) -> list[Entry]:
    """The entries of the log, the oldest first, without their policies. What cannot be read is left
    out.
    """
    data = log.get("data") or {}
    logged = []
    for key, text in data.items():
        try:
            number = int(key.removeprefix(_ENTRY)) if key.startswith(_ENTRY) else 0
            stored = json.loads(text) if number else {}
            settings = stored.pop("settings", None)
            if number and all(isinstance(stored[name], type_) for name, type_ in _TYPES.items()):
                settings_document = json.loads(data[settings]) if settings in data else None
                stored["time"] = _time(stored["time"])
                logged.append(Entry(number, settings=settings_document, **stored))
        except (ValueError, TypeError, AttributeError, KeyError):
            continue
    return sorted(logged, key=lambda entry: entry.number)


@clients.agreed
def _appended(objects: clients.Objects, entry: Entry) -> Entry:
    """Write the entry into the log, with the next number. Raises Refused."""
    log = _log(objects)
    logged = _logged(log)
    numbered = replace(entry, number=logged[-1].number + 1 if logged else 1)
    metadata: dict[str, Any] = {
        "name": HISTORY,
        "namespace": NAMESPACE,
        "labels": {PART_OF: "fairlead"},
    }
    if log:  # so that nobody else's entry is overwritten
        metadata["resourceVersion"] = log["metadata"]["resourceVersion"]
    data = _data(_bounded([*logged, numbered]))
    objects.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return numbered


def _data(logged: Sequence[Entry]) -> dict[str, str]:
    """The data of the log. Settings that several entries have are there once."""
    data = {}
    for entry in logged:
        settings = json.dumps(entry.settings, sort_keys=True)
        key = f"{_SETTINGS}{digest(settings.encode())}"
        if entry.settings is not None:
            data[key] = settings
        stored = {name: getattr(entry, name) for name in _TYPES}
        stored["settings"] = key if entry.settings is not None else None
        data[f"{_ENTRY}{entry.number:08}"] = json.dumps(stored)
    return data


def _bounded(logged: Sequence[Entry]) -> list[Entry]:
    """As many entries as may be kept, the oldest first. Deployments that changed neither policies
    nor settings go first, then the oldest; the last entry stays.
    """
    entries = list(logged)
    while len(entries) > 1 and (
        len(entries) > ENTRIES or sum(len(text) for text in _data(entries).values()) > LARGEST
    ):
        repeated = (
            number
            for number in range(1, len(entries) - 1)
            if _state(entries[number]) == _state(entries[number - 1])
        )
        del entries[next(repeated, 0)]
    return entries


def _state(entry: Entry) -> tuple[str, str]:
    return entry.revision, json.dumps(entry.settings, sort_keys=True)

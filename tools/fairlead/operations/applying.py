"""Applies the objects of a deployment, or has the API server say what applying them would do."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.deployment import disabled_objects, ownership
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import drift, object_comparison
from fairlead.operations.object_comparison import FieldChange

CREATED, CONFIGURED, UNCHANGED, DELETED = "created", "configured", "unchanged", "deleted"
_TRIED = (*drift.WEBHOOKS, "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
CHANGED, UNKNOWN = "changed", "unknown"
"""What applying an object would do, beside created, unchanged and deleted."""


@dataclass(frozen=True)
class Outcome:
    """What became of an object, or would: the `action` is one of the constants above, `fields` are
    what changes.

    `note` is the error for which an object is unknown, or was compared without a dry run.
    """

    api_version: str
    kind: str
    name: str
    namespace: str | None
    action: str
    fields: tuple[FieldChange, ...] = ()
    note: str | None = None

    @property
    def reference(self) -> str:
        """The object as kubectl takes it, such as `deployment/opa`."""
        return f"{self.kind.lower()}/{self.name}"

    def document(self) -> dict[str, Any]:
        """{kind, name, namespace, action, fields, note}; fields as {path, old, new}."""
        return {
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "action": self.action,
            "fields": [change.document() for change in self.fields],
            "note": self.note,
        }


class Applier:
    """Applies objects in a cluster, and records what became of each. `taken` names those that were
    there before, and that Fairlead had not made.
    """

    def __init__(self, objects: clients.Objects) -> None:
        self.objects = objects
        self._outcomes: dict[tuple[str, str, str | None], Outcome] = {}
        self.taken: list[str] = []
        self._uids: dict[tuple[str, str, str | None], str] = {}

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcome for each object, in the order in which they were applied first."""
        return list(self._outcomes.values())

    @property
    def uids(self) -> list[str]:
        """The uids of what was applied and not deleted since."""
        deleted = {key for key, outcome in self._outcomes.items() if outcome.action == DELETED}
        return [uid for key, uid in self._uids.items() if key not in deleted]

    def apply(self, manifest: Mapping[str, Any]) -> None:
        """Apply the object, without what others added to it if it is a ConfigMap or one of
        drift.COMPARED. Raises Refused, Unreachable.
        """
        before = _present(self.objects, manifest)
        if before is not None and _is_applied(manifest, before):
            self._record(_outcome(manifest, UNCHANGED), before)
            return
        after = _applied(self.objects, manifest)
        fields = () if before is None else object_comparison.between(manifest, before, after)
        action = CREATED if before is None else CONFIGURED if fields else UNCHANGED
        if before is not None and self._is_of_others(manifest["kind"], before):
            self.taken.append(f"{manifest['kind']} {manifest['metadata']['name']}")
        self._record(_outcome(manifest, action, fields), after)

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None) -> None:
        """Delete the object, if there is one. Raises Refused, Unreachable."""
        if self.objects.get(api_version, kind, name, namespace) is None:
            return
        self.objects.delete(api_version, kind, name, namespace)
        self._record(Outcome(api_version, kind, name, namespace, DELETED))

    def _is_of_others(self, kind: str, live: Mapping[str, Any]) -> bool:
        return not (ownership.is_ours(kind, live) or live["metadata"]["uid"] in self._uids_recorded)

    @functools.cached_property
    def _uids_recorded(self) -> Collection[str]:
        """Few objects have lost all other marks."""
        return ownership.recorded(self.objects)

    def _record(self, outcome: Outcome, live: Mapping[str, Any] | None = None) -> None:
        """Record the outcome; an object that is applied twice keeps what happened first, unless it
        was deleted at last.
        """
        key = (outcome.kind, outcome.name, outcome.namespace)
        if live is not None:
            self._uids[key] = live["metadata"]["uid"]
        earlier = self._outcomes.get(key)
        if earlier is None or earlier.action == UNCHANGED or outcome.action == DELETED:
            self._outcomes[key] = outcome


def preview(objects: clients.Objects, manifest: Mapping[str, Any]) -> Outcome:
    """What `Applier.apply` would do: created, changed or unchanged; unknown if the object cannot be
    read. Changes nothing.

    The API server applies the object in a dry run, so that its defaults are not differences. If it
    refuses that, for instance for want of rights, the object is compared with the manifest.
    """
    try:
        before = _present(objects, manifest)
    except Refused as error:
        if error.status != 404:
            return _outcome(manifest, UNKNOWN, note=str(error))
        before = None  # its kind is created, too
    if before is None:
        return _outcome(manifest, CREATED)
    manifest = disabled_objects.kept(manifest, before)  # what is disabled stays so
    note = None
    try:
        after = _tried(objects, manifest, before)
    except Refused as error:
        note, after = str(error), None
    fields = (
        object_comparison.between(manifest, before, after)
        if after is not None
        else object_comparison.from_manifest(
            manifest, before, exactly=manifest["kind"] in drift.COMPARED
        )
    )
    return _outcome(manifest, CHANGED if fields else UNCHANGED, fields, note)


def is_applied(objects: clients.Objects, manifest: Mapping[str, Any]) -> bool:
    """Whether the cluster has an object of drift.COMPARED as `Applier.apply` would leave it. Raises
    Refused, Unreachable.
    """
    present = _present(objects, manifest)
    return present is not None and _is_applied(manifest, present)


def require_acceptable(objects: clients.Objects, admission: Iterable[Mapping[str, Any]]) -> None:
    """Raises UsageError if the API server does not accept one of the webhook configurations and
    admission policies: an intent.yaml may hold wrong CEL, for example. Changes nothing.

    Each is tried under another name, so that what others added to the deployed one does not count.
    What is deployed already was accepted.
    """
    for manifest in admission:
        if manifest["kind"] not in _TRIED:
            continue
        with suppress(Refused):  # who may not read it, or a kind that is not served yet
            if is_applied(objects, manifest):
                continue
        name = f"{manifest['metadata']['name']}-tried"
        tried = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
        try:
            objects.apply(tried, dry_run=True)
        except Refused as error:
            if error.status not in (400, 422):  # else whoever deploys lacks rights, say
                continue
            raise UsageError(
                f"the API server does not accept what the policies' intent.yaml say: {error}. "
                "Nothing was changed"
            ) from error


def _present(objects: clients.Objects, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    metadata = manifest["metadata"]
    return objects.get(
        manifest["apiVersion"], manifest["kind"], metadata["name"], metadata.get("namespace")
    )


def _is_applied(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether applying the object can be left out. It takes an API server as long as a change,
    mostly to compile the expressions of policies.
    """
    return manifest["kind"] in drift.COMPARED and drift.is_applied(
        disabled_objects.kept(manifest, live), live
    )


def _applied(objects: clients.Objects, manifest: Mapping[str, Any]) -> dict[str, Any]:
    if manifest["kind"] == "ConfigMap":
        return objects.apply_whole(manifest)
    if manifest["kind"] in drift.COMPARED:
        return drift.apply_exactly(objects, manifest)
    return objects.apply(manifest)


def _tried(
    objects: clients.Objects, manifest: Mapping[str, Any], before: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What `_applied` would return, by dry runs; None for an object that would be replaced. Raises
    Refused.
    """
    if manifest["kind"] == "ConfigMap":
        return objects.apply_whole(manifest, dry_run=True)
    if manifest["kind"] not in drift.COMPARED:
        return objects.apply(manifest, dry_run=True)
    if drift.replaces(drift.added(manifest, before)):
        return None
    metadata = before["metadata"]
    try:
        applied = objects.apply(manifest, dry_run=True)
        if not drift.added(manifest, applied):
            return applied
        metadata = applied["metadata"]
    except Refused as error:
        if error.status != 422:  # else manifest and additions together are invalid
            raise
    patched = objects.patch(manifest, drift.restoring(manifest, before), dry_run=True)
    return {**patched, "metadata": metadata}


def _outcome(
    manifest: Mapping[str, Any],
    action: str,
    fields: tuple[FieldChange, ...] = (),
    note: str | None = None,
) -> Outcome:
    metadata = manifest["metadata"]
    return Outcome(
        manifest["apiVersion"],
        manifest["kind"],
        metadata["name"],
        metadata.get("namespace"),
        action,
        fields,
        note,
    )

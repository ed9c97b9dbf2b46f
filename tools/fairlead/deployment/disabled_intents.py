"""What is disabled in a cluster, and how objects are switched off and on: webhooks of intents that
a server decides about, and bindings of those that admission policies enforce. Only API servers are
asked, so that it works while OPA is hung. fairlead.deployment.disabled_objects says what is changed
in them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.deployment import disabled_objects, ownership
from fairlead.deployment.disabled_objects import Record
from fairlead.deployment.names import INTENT_LABEL, NAMESPACE, POLICIES, WEBHOOKS
from fairlead.kube import clients
from fairlead.kube.errors import Refused

_ADMISSION = "admissionregistration.k8s.io/v1"

Key = tuple[str, str, str]
"""An object's apiVersion, kind and name."""
Patch = list[dict[str, Any]]
"""A JSON Patch."""


@dataclass(frozen=True)
class Disabled:
    """The disabled intents of a cluster, and sentences about what is off although no intent, or
    not every intent, is disabled.
    """

    records: Mapping[str, Record]
    halves: Sequence[str]

    @property
    def sentences(self) -> list[str]:
        """A sentence for each disabled intent, and for what is half disabled."""
        return [*(record.sentence for record in self.records.values()), *self.halves]


@dataclass(frozen=True)
class Switched:
    """The objects of a cluster by which API servers enforce intents, as they are at this moment, in
    the order in which they are switched off. They are switched on in the reverse order: without
    what mutates, what validates would refuse every pod.

    `none` says what a cluster has without any of them, and Events are about the object `about`.
    """

    live: Mapping[Key, Mapping[str, Any]]
    none: str
    about: Mapping[str, str]

    @property
    def disabled(self) -> Disabled:
        """What is disabled."""
        records = disabled_objects.merged(self.live.values())
        halves = [
            f"{intent} is disabled, but not by {kind} {name}: run `fairlead disable --intent "
            f"{intent}` or `fairlead enable --intent {intent}`"
            for (_, kind, name), live in self.live.items()
            for intent in sorted({each.intent for each in disabled_objects.switches(live)})
            if intent in records.keys() - disabled_objects.records(live).keys()
        ]
        return Disabled(records, halves)

    @property
    def intents(self) -> set[str]:
        """The intents that can be disabled."""
        return {
            each.intent for live in self.live.values() for each in disabled_objects.switches(live)
        }


def webhooks(objects: clients.Objects) -> Switched:
    """Both webhook configurations. Raises ApiServerError."""
    kinds = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
    keys = [(_ADMISSION, kind, WEBHOOKS) for kind in kinds]
    about = {
        "apiVersion": _ADMISSION,
        "kind": kinds[1],
        "name": WEBHOOKS,
        "namespace": NAMESPACE,
    }
    live = {key: item for key in keys if (item := objects.get(*key)) is not None}
    return Switched(live, "no webhook of Fairlead, so API servers do not ask OPA", about)


def bindings(objects: clients.Objects) -> Switched:
    """The bindings of intents, those that validate first. Raises ApiServerError."""
    kinds = ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding")
    live = {
        (_ADMISSION, kind, str(item["metadata"]["name"])): item
        for kind in kinds
        for item in objects.list(_ADMISSION, kind, None, f"{ownership.SELECTOR},{INTENT_LABEL}")
        if str(item["metadata"]["name"]).startswith("fairlead.")
    }
    about = {"apiVersion": "v1", "kind": "ConfigMap", "name": POLICIES, "namespace": NAMESPACE}
    return Switched(live, "no binding of Fairlead, so API servers enforce no policy", about)


def off(live: Mapping[str, Any], records: Mapping[str, Record]) -> Patch:
    """What switches off the intents of the records in an object."""
    present = [each for each in disabled_objects.switches(live) if each.intent in records]
    annotations = live["metadata"].get("annotations") or {}
    added = {
        disabled_objects.RECORD + each.intent: records[each.intent].annotation for each in present
    }
    return [
        *(each.turned_off for each in present if not each.is_off),
        *_annotated(annotations, {**annotations, **added}),
    ]


def on(live: Mapping[str, Any], intents: Collection[str]) -> Patch:
    """What switches on these intents in an object."""
    present = [each for each in disabled_objects.switches(live) if each.intent in intents]
    annotations = live["metadata"].get("annotations") or {}
    dropped = {disabled_objects.RECORD + intent for intent in intents}
    remaining = {name: value for name, value in annotations.items() if name not in dropped}
    return [
        *(each.turned_on for each in present if each.is_off),
        *_annotated(annotations, remaining),
    ]


def _annotated(before: Mapping[str, str], after: Mapping[str, str]) -> Patch:
    if before == after:
        return []
    return [{"op": "add", "path": "/metadata/annotations", "value": dict(after)}]


def changed_by(
    objects: clients.Objects,
    cluster: str,
    keys: Sequence[Key],
    change: Callable[[Mapping[str, Any]], Patch],
) -> bool:
    """Change the objects in this order; whether there was anything to change. A dry run comes
    first, so that somebody who may change only some of them changes none. Errors name the
    `cluster`. Raises FairleadError.
    """
    try:
        for key in keys:
            _patch(objects, key, change, dry_run=True)
    except Refused as error:
        if error.status != 403:
            raise
        raise FairleadError(
            f"{error}. Nothing was changed in cluster {cluster}: this takes the right to "
            "patch webhook configurations and bindings of admission policies, and the verb "
            "administer on policies.fairlead.dev. Use the kubeconfig of an administrator"
        ) from error
    return patch_each(objects, keys, change)


def patch_each(
    objects: clients.Objects,
    keys: Sequence[Key],
    change: Callable[[Mapping[str, Any]], Patch],
) -> bool:
    """Change the objects in this order; whether there was anything to change. Raises
    ApiServerError.
    """
    changed = [_patch(objects, key, change) for key in keys]
    return any(changed)


@clients.agreed
def _patch(
    objects: clients.Objects,
    key: Key,
    change: Callable[[Mapping[str, Any]], Patch],
    *,
    dry_run: bool = False,
) -> bool:
    """Change one object; False if there is nothing to change. Somebody else, such as the
    controller, may change it at the same time.
    """
    manifest = objects.get(*key)
    operations = [] if manifest is None else change(manifest)
    if manifest is None or not operations:
        return False
    version = manifest["metadata"]["resourceVersion"]
    unchanged = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
    objects.patch(manifest, [unchanged, *operations], dry_run=dry_run)
    return True

"""Disables intents in an emergency, and enables them again.

All of it is asked of API servers alone, so that it works while OPA is hung. While an intent is
disabled, API servers do not ask OPA for it: pods are created unplaced. The guards stay in force.
See fairlead.deployment.switches for what is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fairlead.clusters.base import Cluster
from fairlead.common import remarks, texts
from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment import switches
from fairlead.deployment.names import NAMESPACE, WEBHOOKS
from fairlead.deployment.switches import Record
from fairlead.kube import clients, identity
from fairlead.kube.errors import ApiServerError, Refused
from fairlead.kube.events import event

_ADMISSION = "admissionregistration.k8s.io/v1"
_MUTATING = (_ADMISSION, "MutatingWebhookConfiguration", WEBHOOKS)
_VALIDATING = (_ADMISSION, "ValidatingWebhookConfiguration", WEBHOOKS)
_ATTEMPTS = 5
_ABOUT = {
    "apiVersion": _ADMISSION,
    "kind": "MutatingWebhookConfiguration",
    "name": WEBHOOKS,
    "namespace": NAMESPACE,
}

Key = tuple[str, str, str]
"""An object's apiVersion, kind and name."""
Operations = list[dict[str, Any]]
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


def read(objects: clients.Objects) -> Disabled:
    """What is disabled in the cluster. Raises ApiServerError."""
    configurations = [*_live(objects, (_MUTATING, _VALIDATING)).values()]
    owners = _policies(configurations)
    policies = _live(objects, [*owners])
    records = switches.merged(configurations)
    halves = [
        f"{intent} is disabled in one of the two webhook configurations only: run `fairlead "
        f"disable --intent {intent}` or `fairlead enable --intent {intent}`"
        for intent in records
        if any(
            intent in switches.intents(configuration)
            and intent not in switches.records(configuration)
            for configuration in configurations
        )
    ]
    halves += [
        f"ValidatingAdmissionPolicy {key[2]} is disabled, but its webhooks are not: run `fairlead "
        "enable`"
        for key, policy in policies.items()
        if switches.policy_is_off(policy) and owners[key] not in records
    ]
    return Disabled(records, halves)


def disable(cluster: Cluster, intent: str | None, reason: str | None) -> dict[str, Any]:
    """Disable an intent, by default all, so that API servers no longer ask OPA for it.

    Returns {disabled, changed, warnings}: `disabled` lists all disabled intents as {intent, by,
    since, reason}, `changed` names those that this call disabled. A disabled intent keeps its first
    record. The policies that refuse objects too large for its webhooks are disabled, too.

    Raises UsageError if there is no such intent or the reason is too long, FairleadError if
    something is missing or may not be changed (then nothing was changed).
    """
    remarks.check("--reason", reason)
    objects = cluster.objects()
    live = _live(objects, (_MUTATING, _VALIDATING))
    if not live:
        raise FairleadError(
            f"cluster {cluster.name} has no webhook of Fairlead, so API servers do not ask OPA: "
            "there is nothing to disable"
        )
    known = _intents(live.values())
    chosen = chosen_of(intent, known)
    before = read(objects).records
    record = Record("", identity.user(objects), texts.now(), reason)
    records = {
        name: before[name]
        if name in before and before[name] != Record(name)
        else Record(name, record.by, record.since, record.reason)
        for name in chosen
    }
    policies = [key for key, owner in _policies(live.values()).items() if owner in chosen]

    def change(key: Key, manifest: Mapping[str, Any]) -> Operations:
        if key in policies:
            return _policy(manifest, off=True)
        return _disabling(manifest, records)

    # Without the mutating webhook, what validates would refuse every pod: it goes first.
    changed = changed_by(cluster, objects, (_VALIDATING, *policies, _MUTATING), change)
    new = [name for name in records if name not in before or before[name] != records[name]]
    return {
        "disabled": [asdict(entry) for entry in read(objects).records.values()],
        "changed": new or sorted(chosen) if changed else [],
        "warnings": reported(
            objects, "Warning", "IntentDisabled", [records[name].sentence for name in new]
        ),
    }


def enable(cluster: Cluster, intent: str | None) -> dict[str, Any]:
    """Enable an intent again, by default all. Returns {disabled, changed, warnings}, as `disable`;
    `changed` names those that this call enabled.

    Raises UsageError if there is no such intent, FairleadError if something may not be changed
    (then nothing was changed).
    """
    objects = cluster.objects()
    live = _live(objects, (_MUTATING, _VALIDATING))
    before = read(objects).records
    chosen = chosen_of(intent, _intents(live.values()) | before.keys())

    policies = [key for key, owner in _policies(live.values()).items() if owner in chosen]

    def change(key: Key, manifest: Mapping[str, Any]) -> Operations:
        return _policy(manifest, off=False) if key in policies else _enabling(manifest, chosen)

    # Without the mutating webhook, the validating one would refuse every pod: it comes last. Those
    # policies are enforced up to a second after their change.
    changed = changed_by(cluster, objects, (*policies, _MUTATING, _VALIDATING), change)
    old = [name for name in before if name in chosen]
    sentences = enabled_sentences(objects, [before[name] for name in old])
    return {
        "disabled": [asdict(entry) for entry in read(objects).records.values()],
        "changed": old or sorted(chosen) if changed else [],
        "warnings": reported(objects, "Normal", "IntentEnabled", sentences),
    }


def enabled_sentences(objects: clients.Objects, records: Iterable[Record]) -> list[str]:
    """What the Events say about intents that are enabled again."""
    user = identity.user(objects) or "somebody unknown"
    return [
        f"{record.intent} was enabled by {user}; it was disabled"
        + (f" since {record.since}" if record.since else "")
        + f" by {record.by or 'somebody unknown'}"
        + (f" ({record.reason})" if record.reason else "")
        for record in records
    ]


def chosen_of(intent: str | None, known: Collection[str]) -> set[str]:
    """The intents that a command names, by default all that are known. Raises UsageError."""
    if intent is None:
        return set(known)
    if intent not in known:
        raise UsageError(
            f"nothing in the cluster belongs to the intent {intent!r}: there are "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    return {intent}


def _intents(configurations: Collection[Mapping[str, Any]]) -> set[str]:
    return set().union(*map(switches.intents, configurations))


def _policies(configurations: Collection[Mapping[str, Any]]) -> dict[Key, str]:
    """The admission policies that refuse objects too large for the webhooks, each with its intent.
    Not all of them exist.
    """
    names = [
        str(webhook["name"])
        for configuration in configurations
        for webhook in configuration.get("webhooks") or ()
    ]
    kind = "ValidatingAdmissionPolicy"
    return {
        (_ADMISSION, kind, switches.size_policy(name)): switches.intent_of(name) for name in names
    }


def _live(objects: clients.Objects, keys: Sequence[Key]) -> dict[Key, dict[str, Any]]:
    """Those of the objects that exist."""
    live = {key: objects.get(*key) for key in keys}
    return {key: manifest for key, manifest in live.items() if manifest is not None}


def changed_by(
    cluster: Cluster,
    objects: clients.Objects,
    keys: Sequence[Key],
    change: Callable[[Key, Mapping[str, Any]], Operations],
) -> bool:
    """Change the objects in this order; whether there was anything to change. A dry run comes
    first, so that somebody who may change only some of them changes none. Raises FairleadError.
    """
    try:
        for key in keys:
            _patch(objects, key, change, dry_run=True)
    except Refused as error:
        if error.status != 403:
            raise
        raise FairleadError(
            f"{error}. Nothing was changed in cluster {cluster.name}: this takes the right to "
            "patch webhook configurations, admission policies and their bindings, and the verb "
            "administer on policies.fairlead.dev. Use the kubeconfig of an administrator"
        ) from error
    changed = [_patch(objects, key, change) for key in keys]
    return any(changed)


def _patch(
    objects: clients.Objects,
    key: Key,
    change: Callable[[Key, Mapping[str, Any]], Operations],
    *,
    dry_run: bool = False,
) -> bool:
    """Change one object; False if there is nothing to change. Somebody else, such as the keeper,
    may change it at the same time.
    """
    for attempt in range(_ATTEMPTS):
        manifest = objects.get(*key)
        operations = [] if manifest is None else change(key, manifest)
        if manifest is None or not operations:
            return False
        version = manifest["metadata"]["resourceVersion"]
        unchanged = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        identified = {"apiVersion": key[0], "kind": key[1], "metadata": {"name": key[2]}}
        try:
            objects.patch(identified, [unchanged, *operations], dry_run=dry_run)
        except Refused as error:
            if error.status != 409 or attempt == _ATTEMPTS - 1:
                raise
        else:
            return True
    return False


def _disabling(manifest: Mapping[str, Any], records: Mapping[str, Record]) -> Operations:
    present = switches.intents(manifest)
    annotations = manifest["metadata"].get("annotations") or {}
    wanted = {
        switches.RECORD + intent: record.annotation
        for intent, record in records.items()
        if intent in present
    }
    operations: Operations = [
        {
            "op": "add",
            "path": f"/webhooks/{number}/objectSelector",
            "value": switches.off(webhook.get("objectSelector")),
        }
        for number, webhook in enumerate(manifest.get("webhooks") or ())
        if switches.intent_of(webhook["name"]) in records
        and not switches.is_off(webhook.get("objectSelector"))
    ]
    if any(annotations.get(key) != value for key, value in wanted.items()):
        value = {**annotations, **wanted}
        operations.append({"op": "add", "path": "/metadata/annotations", "value": value})
    return operations


def _enabling(manifest: Mapping[str, Any], chosen: Collection[str]) -> Operations:
    annotations = manifest["metadata"].get("annotations") or {}
    rest = {
        key: value
        for key, value in annotations.items()
        if not (key.startswith(switches.RECORD) and key.removeprefix(switches.RECORD) in chosen)
    }
    operations: Operations = [
        {
            "op": "add",
            "path": f"/webhooks/{number}/objectSelector",
            "value": switches.on(webhook.get("objectSelector")),
        }
        for number, webhook in enumerate(manifest.get("webhooks") or ())
        if switches.intent_of(webhook["name"]) in chosen
        and switches.is_off(webhook.get("objectSelector"))
    ]
    if rest != annotations:
        operations.append({"op": "add", "path": "/metadata/annotations", "value": rest})
    return operations


def _policy(manifest: Mapping[str, Any], *, off: bool) -> Operations:
    """Switch a ValidatingAdmissionPolicy off or on."""
    if switches.policy_is_off(manifest) == off:
        return []
    selector = manifest["spec"]["matchConstraints"].get("objectSelector")
    value = switches.off(selector) if off else switches.on(selector)
    return [{"op": "add", "path": "/spec/matchConstraints/objectSelector", "value": value}]


def reported(
    objects: clients.Objects,
    kind: Literal["Normal", "Warning"],
    reason: str,
    messages: Sequence[str],
    about: Mapping[str, str] = _ABOUT,
) -> list[str]:
    """Write an Event for each message; returns what went wrong."""
    warnings = []
    for message in messages:
        try:
            objects.create(event(kind, reason, message, about=about, component="fairlead"))
        except ApiServerError as error:
            warnings.append(f"the Event {reason} could not be written: {error}")
    return warnings

"""Disables intents in an emergency, and enables them again.

While an intent is disabled, pods are created unplaced. The guards stay in force. All of it is asked
of API servers alone, so that it works while OPA is hung. How a webhook or a binding is switched
off is in fairlead.deployment.disabled_objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from typing import Any, Literal

from fairlead.clusters.base import Cluster
from fairlead.common import remarks, texts
from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment import engine_names
from fairlead.deployment.disabled_objects import Record
from fairlead.kube import clients, identity
from fairlead.kube.errors import ApiServerError
from fairlead.kube.events import event
from fairlead.operations import deployed_state, disabled_intents
from fairlead.operations.disabled_intents import Disabled, Switched


def read(objects: clients.Objects) -> Disabled:
    """What is disabled in the cluster. Raises ApiServerError."""
    return _switched(objects).disabled


def disable(cluster: Cluster, intent: str | None, reason: str | None) -> dict[str, Any]:
    """Disable an intent, by default all, so that API servers no longer enforce it.

    Returns {disabled, changed, warnings}: `disabled` lists all disabled intents as {intent, by,
    since, reason}, `changed` names those that this call disabled. A disabled intent keeps its first
    record.

    Raises UsageError if there is no such intent or the reason is too long, FairleadError if
    something is missing or may not be changed (then nothing was changed).
    """
    remarks.check("--reason", reason)
    objects = cluster.objects()
    switched = _switched(objects)
    if not switched.intents:
        raise FairleadError(
            f"cluster {cluster.name} has {switched.none}: there is nothing to disable"
        )
    intents = _intents(intent, switched.intents)
    before = switched.disabled.records
    by, time = identity.user(objects), texts.now()
    records = {
        name: before[name]
        if name in before and before[name] != Record(name)
        else Record(name, by, time, reason)
        for name in sorted(intents)
    }
    changed = disabled_intents.changed_by(
        cluster, objects, list(switched.live), lambda live: disabled_intents.off(live, records)
    )
    new = [name for name in records if before.get(name) != records[name]]
    sentences = [records[name].sentence for name in new]
    return {
        "disabled": _documents(objects),
        "changed": new or sorted(intents) if changed else [],
        "warnings": _reported(objects, "Warning", "IntentDisabled", sentences, switched),
    }


def enable(cluster: Cluster, intent: str | None) -> dict[str, Any]:
    """Enable an intent again, by default all. Returns {disabled, changed, warnings}, as `disable`;
    `changed` names those that this call enabled.

    Raises UsageError if there is no such intent, FairleadError if something may not be changed
    (then nothing was changed).
    """
    objects = cluster.objects()
    switched = _switched(objects)
    before = switched.disabled.records
    intents = _intents(intent, switched.intents | before.keys())
    changed = disabled_intents.changed_by(
        cluster, objects, list(switched.live)[::-1], lambda live: disabled_intents.on(live, intents)
    )
    old = [name for name in before if name in intents]
    sentences = _enabled_sentences(objects, [before[name] for name in old])
    return {
        "disabled": _documents(objects),
        "changed": old or sorted(intents) if changed else [],
        "warnings": _reported(objects, "Normal", "IntentEnabled", sentences, switched),
    }


def _switched(objects: clients.Objects) -> Switched:
    """What switches intents of the engine that is deployed."""
    is_asked = deployed_state.engine(objects) in engine_names.ASKED
    return disabled_intents.webhooks(objects) if is_asked else disabled_intents.bindings(objects)


def _documents(objects: clients.Objects) -> list[dict[str, Any]]:
    return [asdict(record) for record in read(objects).records.values()]


def _enabled_sentences(objects: clients.Objects, records: Iterable[Record]) -> list[str]:
    """What the Events say about intents that are enabled again."""
    user = identity.user(objects) or "somebody unknown"
    return [
        f"{record.intent} was enabled by {user}; it was disabled"
        + (f" since {record.since}" if record.since else "")
        + f" by {record.by or 'somebody unknown'}"
        + (f" ({record.reason})" if record.reason else "")
        for record in records
    ]


def _intents(intent: str | None, present: Collection[str]) -> set[str]:
    """The intents that a command names, by default all of those present. Raises UsageError."""
    if intent is None:
        return set(present)
    if intent not in present:
        raise UsageError(
            f"nothing in the cluster belongs to the intent {intent!r}: there are "
            f"{', '.join(sorted(present)) or 'none'}"
        )
    return {intent}


def _reported(
    objects: clients.Objects,
    kind: Literal["Normal", "Warning"],
    reason: str,
    messages: Sequence[str],
    switched: Switched,
) -> list[str]:
    """Write an Event for each message; returns what went wrong."""
    warnings = []
    for message in messages:
        try:
            objects.create(event(kind, reason, message, about=switched.about, component="fairlead"))
        except ApiServerError as error:
            warnings.append(f"the Event {reason} could not be written: {error}")
    return warnings

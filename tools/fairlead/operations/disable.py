"""Disables intents in an emergency, and enables them again.

While an intent is disabled, pods are created unplaced. The guards stay in force. All of it is asked
of API servers alone, so that it works while OPA is hung. How a webhook or a binding is switched
off is in fairlead.deployment.disabled_objects.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from fairlead.clusters.base import Cluster
from fairlead.common import remarks, texts
from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment import disabled_intents, engine_names, history_log
from fairlead.deployment.disabled_intents import Disabled, Switched
from fairlead.deployment.disabled_objects import Record
from fairlead.deployment.history_log import DISABLE, Entry
from fairlead.keeper import switch_ends
from fairlead.kube import clients, identity
from fairlead.kube.errors import ApiServerError
from fairlead.kube.events import event
from fairlead.operations import deployed_state


def read(objects: clients.Objects) -> Disabled:
    """What is disabled in the cluster. Raises ApiServerError."""
    return _switched(objects).disabled


def disable(
    cluster: Cluster, intent: str | None, reason: str, duration: timedelta | None = None
) -> dict[str, Any]:
    """Disable an intent, by default all, so that API servers no longer enforce it, for a time
    `duration`, by default until `enable`.

    Returns {disabled, changed, updated, warnings}: `disabled` lists all disabled intents as
    {intent, by, since, reason, until}, `changed` names those that this call disabled. `updated` has
    the former records of those that were disabled already: they get the reason and the end of this
    call, and keep since when and by whom they are disabled.

    Raises UsageError if there is no such intent or the reason is no line of text, FairleadError if
    something is missing, may not be changed, or nothing would end it (then nothing was changed).
    """
    remarks.check("--reason", reason)
    objects = cluster.objects()
    switched = _switched(objects)
    if not switched.intents:
        raise FairleadError(
            f"cluster {cluster.name} has {switched.none}: there is nothing to disable"
        )
    if duration is not None:
        _require_end(objects)
    intents = _intents(intent, switched.intents)
    before = _recorded(switched, intents)
    user, now = identity.user(objects), datetime.now(UTC)
    until = texts.time(now + duration) if duration else None
    records = {
        name: replace(before[name], reason=reason, until=until)
        if name in before
        else Record(name, user, texts.time(now), reason, until)
        for name in sorted(intents)
    }
    changed = disabled_intents.changed_by(
        objects, cluster.name, list(switched.live), lambda live: disabled_intents.off(live, records)
    )
    new = [name for name in records if name not in before]
    updated = [asdict(record) for record in before.values()] if changed else []
    message = reason + "".join(f"; {name}: {before[name].ended}" for name in sorted(before))
    entry = Entry(0, DISABLE, texts.time(now), user, message, intents=tuple(records), until=until)
    sentences = [
        f"{record.sentence}{f'. Before, {before[name].ended}' if name in before else ''}"
        for name, record in records.items()
    ]
    return {
        "disabled": _documents(objects),
        "changed": new,
        "updated": updated,
        "warnings": [
            *_logged(objects, entry, changed=changed),
            *_reported(objects, "Warning", "IntentDisabled", sentences, switched),
        ],
    }


def _recorded(switched: Switched, intents: Collection[str]) -> dict[str, Record]:
    """The records of those intents that somebody disabled before, and said so."""
    records = switched.disabled.records
    return {
        name: records[name]
        for name in sorted(intents)
        if records.get(name, Record(name)) != Record(name)
    }


def _require_end(objects: clients.Objects) -> None:
    """Raises FairleadError unless something runs in the cluster that enables an intent again when
    its time is over.
    """
    missing = switch_ends.missing(objects)
    if missing:
        raise FairleadError(
            f"--for: {missing}. Nothing was changed: leave --for out, and run `fairlead enable` "
            "yourself"
        )


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
        objects,
        cluster.name,
        list(switched.live)[::-1],
        lambda live: disabled_intents.on(live, intents),
    )
    old = [name for name in before if name in intents]
    user = identity.user(objects)
    entry = switch_ends.entry([before[name] for name in old], user, sorted(intents))
    sentences = [
        f"{name} was enabled by {user or 'somebody unknown'}; {before[name].ended}" for name in old
    ]
    return {
        "disabled": _documents(objects),
        "changed": old or sorted(intents) if changed else [],
        "warnings": [
            *_logged(objects, entry, changed=changed),
            *_reported(objects, "Normal", "IntentEnabled", sentences, switched),
        ],
    }


def _switched(objects: clients.Objects) -> Switched:
    """What switches intents of the engine that is deployed."""
    is_asked = deployed_state.engine(objects) in engine_names.ASKED
    return disabled_intents.webhooks(objects) if is_asked else disabled_intents.bindings(objects)


def _documents(objects: clients.Objects) -> list[dict[str, Any]]:
    return [asdict(record) for record in read(objects).records.values()]


def _logged(objects: clients.Objects, entry: Entry, *, changed: bool) -> list[str]:
    """Write the entry into the history, if anything changed; returns what went wrong. The switch
    has happened then, and is not undone: in an emergency it counts more than the entry.
    """
    try:
        if changed:
            history_log.appended(objects, entry)
    except ApiServerError as error:
        return [f"`fairlead history` has no entry of this: {error}"]
    return []


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

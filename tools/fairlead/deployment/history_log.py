"""The log of what was in force: the ConfigMap `fairlead-history`, with an entry for each push,
rollback and deployment, for each time that intents were disabled or enabled, and for the end of
each exception. Guards let only administrators and the controller change it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from fairlead.common import texts
from fairlead.common.digests import digest
from fairlead.deployment import ownership
from fairlead.deployment.names import HISTORY, NAMESPACE
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.policy.revision import plain
from fairlead.settings.models import Settings

ENTRIES = 100
"""The number of entries that are kept of changes of policies and settings, as many of switches, and
as many of exceptions: none crowds out the others."""
LARGEST = 700_000
"""The most characters of all entries together; a ConfigMap takes 1 MiB."""
DISABLE, ENABLE = "disable", "enable"
"""The actions of entries about switches."""
EXCEPTION = "exception"
"""The action of entries about the end of an exception."""

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
_SWITCH_TYPES: Mapping[str, Any] = {"intents": list, "until": str | None}
"""What the log has besides of an entry about switches or an exception."""


@dataclass(frozen=True)
class Entry:
    """A push, a rollback or a deployment, a switch: that intents were disabled or enabled, or the
    end of an exception.

    `time` is when it was in force (RFC 3339, to the second), `by` the API server's user. `restored`
    is the number of the entry that a rollback brought back. `manifest` is the policies' ConfigMap,
    None if it is kept no more. Switches and exceptions have neither revision (an empty text) nor
    settings, but the `intents` that they are about; `until` is when disabled ones are enabled again
    by themselves, or when an exception was to end.
    """

    number: int
    action: str
    time: str
    by: str | None
    message: str | None
    revision: str = ""
    settings: dict[str, Any] | None = None
    restored: int | None = None
    manifest: dict[str, Any] | None = None
    intents: tuple[str, ...] = ()
    until: str | None = None

    @property
    def title(self) -> str:
        """How messages name the entry."""
        by = f", by {self.by}" if self.by else ""
        message = f": {self.message}" if self.message else ""
        return f"entry {self.number} (revision {self.revision}, {self.time}{by}{message})"

    @property
    def is_change(self) -> bool:
        """Whether it is about a change of policies or settings."""
        return self.action not in (DISABLE, ENABLE, EXCEPTION)

    @property
    def modules(self) -> dict[str, str] | None:
        """The policies as they were written, by ConfigMap key; None if they are kept no more."""
        return None if self.manifest is None else plain(self.manifest["data"])


def read(objects: clients.Objects) -> list[Entry]:
    """The entries, the oldest first, without their policies. Raises ApiServerError."""
    return _entries(_log(objects))


def earlier_settings(objects: clients.Objects) -> list[Settings]:
    """The settings of all deployments that are still known, the latest first, as far as this
    version can read them; empty where there is no history, or we may not read it.
    """
    try:
        documents = [entry.settings for entry in reversed(read(objects)) if entry.settings]
    except Refused:
        return []
    settings = []
    for document in documents:
        with suppress(ValidationError):
            settings.append(Settings.model_validate(document))
    return settings


@clients.agreed
def appended(objects: clients.Objects, entry: Entry, *, bounded: bool = True) -> Entry:
    """Write the entry into the log, with the next number. Without `bounded`, nothing else of the
    log changes. Raises ApiServerError.
    """
    log = _log(objects)
    entries = _entries(log)
    numbered = replace(entry, number=entries[-1].number + 1 if entries else 1)
    metadata: dict[str, Any] = {
        "name": HISTORY,
        "namespace": NAMESPACE,
        "labels": ownership.labels(),
    }
    if log:  # so that nobody else's entry is overwritten
        metadata["resourceVersion"] = log["metadata"]["resourceVersion"]
    data = (
        _data(_bounded([*entries, numbered]))
        if bounded
        else {**(log.get("data") or {}), **_data([numbered])}
    )
    objects.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return numbered


def _time(stored: str) -> str:
    """A stored time in the form that commands print; empty if it cannot be read."""
    try:
        return texts.time(datetime.fromisoformat(stored))
    except ValueError:
        return ""


def _log(objects: clients.Objects) -> dict[str, Any]:
    return objects.get("v1", "ConfigMap", HISTORY, NAMESPACE) or {}


def _entries(log: Mapping[str, Any]) -> list[Entry]:
    """The entries of the log, the oldest first. What cannot be read is left out."""
    data = log.get("data") or {}
    entries = []
    for key, text in data.items():
        try:
            number = int(key.removeprefix(_ENTRY)) if key.startswith(_ENTRY) else 0
            if number:
                entries.append(_entry(number, json.loads(text), data))
        except (ValueError, TypeError, AttributeError, KeyError):
            continue
    return sorted(entries, key=lambda entry: entry.number)


def _entry(number: int, stored: dict[str, Any], data: Mapping[str, str]) -> Entry:
    """An entry as the log has it. Raises one of several errors if that cannot be read."""
    settings = stored.pop("settings", None)
    types = {**_TYPES, **(_SWITCH_TYPES if "intents" in stored else {})}
    for name, type_ in types.items():
        if not isinstance(stored[name], type_):
            raise TypeError(name)
    stored["time"] = _time(stored["time"])
    if "intents" in stored:
        stored["intents"] = tuple(map(str, stored["intents"]))
    document = json.loads(data[settings]) if settings in data else None
    return Entry(number, settings=document, **stored)


def _data(entries: Sequence[Entry]) -> dict[str, str]:
    """The data of the log. Settings that several entries have are there once."""
    data = {}
    for entry in entries:
        settings = json.dumps(entry.settings, sort_keys=True)
        key = f"{_SETTINGS}{digest(settings.encode())}"
        if entry.settings is not None:
            data[key] = settings
        names = (*_TYPES, *(() if entry.is_change else _SWITCH_TYPES))
        stored = {name: getattr(entry, name) for name in names}
        stored["settings"] = key if entry.settings is not None else None
        data[f"{_ENTRY}{entry.number:08}"] = json.dumps(stored)
    return data


def _bounded(entries: Sequence[Entry]) -> list[Entry]:
    """As many entries as may be kept, the oldest first. Deployments that changed neither policies
    nor settings go first, then the oldest; the last entry stays.
    """
    changes = [entry for entry in entries if entry.is_change]
    exceptions = [entry for entry in entries if entry.action == EXCEPTION][-ENTRIES:]
    switches = [entry for entry in entries if entry.action in (DISABLE, ENABLE)][-ENTRIES:]
    rest = [*switches, *exceptions]
    while len(changes) > 1 and (len(changes) > ENTRIES or _size([*changes, *rest]) > LARGEST):
        repeated = (
            number
            for number in range(1, len(changes) - 1)
            if _state(changes[number]) == _state(changes[number - 1])
        )
        del changes[next(repeated, 0)]
    return sorted([*changes, *rest], key=lambda entry: entry.number)


def _size(entries: Sequence[Entry]) -> int:
    return sum(len(text) for text in _data(entries).values())


def _state(entry: Entry) -> tuple[str, str]:
    return entry.revision, json.dumps(entry.settings, sort_keys=True)

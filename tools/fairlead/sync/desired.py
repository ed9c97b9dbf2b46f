"""The desired state of OPA, built from the events of the API server; `take` returns a consistent
snapshot of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Event, RLock
from typing import Any

from fairlead.common import texts
from fairlead.deployment.names import DATA_LABEL
from fairlead.kube.live_namespaces import LiveNamespace
from fairlead.kube.resources import Resource
from fairlead.sync import config_maps, room, stores
from fairlead.sync.config_maps import ConfigMap, Item, Kind, Owner
from fairlead.sync.room import Room
from fairlead.sync.stores import Store

NAMESPACES = "namespaces"
"""The store of namespaces."""

_LONGEST = 1024
"""Characters of a namespace's annotation that OPA gets. Users may write 256 KiB; the value of a
label, for which a policy may take it, has 63."""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Source:
    """What one watch follows: namespaces, the objects of a resource, or the ConfigMaps with
    policies or with data.

    `namespace` is the namespace of the ConfigMaps, None for all namespaces.
    """

    kind: Kind
    namespace: str | None = None
    resource: Resource | None = None

    def __str__(self) -> str:
        if self.store:
            return str(self.resource or self.kind)
        return f"{self.kind} in {self.namespace or 'all namespaces'}"

    @property
    def store(self) -> str | None:
        """The store that it fills; None if it follows ConfigMaps."""
        if self.resource:
            return self.resource.name
        return NAMESPACES if self.kind == "namespaces" else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What OPA should hold at one moment.

    `broken` are items whose new content cannot be sent; OPA keeps the content that it has.
    `unlisted` says what has not been listed yet of policies and data. A store is None
    until it has been listed. The next snapshot has the same object if nothing in it changed.
    """

    texts: Mapping[Item, str]
    broken: frozenset[Item]
    stores: Mapping[str, Store | None]
    unlisted: tuple[str, ...]
    config_maps: tuple[ConfigMap, ...]

    @property
    def complete(self) -> bool:
        """Whether all policies and data are known, and OPA must drop items that are not here."""
        return not self.unlisted

    @property
    def unknown(self) -> list[str]:
        """The stores that have not been listed yet."""
        return [name for name, objects in self.stores.items() if objects is None]


class Desired:
    """The state that watches maintain and the reconciler reads; safe for threads."""

    def __init__(
        self,
        sources: Iterable[Source],
        *,
        namespace_labels: Iterable[str],
    ) -> None:
        """`namespace_labels` are the keys of the namespace labels to replicate."""
        self.changed = Event()
        """Set from a change of the desired state until the next `take`."""
        self._labels = tuple(namespace_labels)
        self._lock = RLock()
        self._changed_at: float | None = None
        self._listed: dict[Source, dict[Any, Any] | None] = dict.fromkeys(sources)
        shares = room.shares(source.resource for source in self._listed if source.resource)
        self._rooms = {
            source: Room(shares[source.resource]) for source in self._listed if source.resource
        }
        self._stores: dict[Source, Store] = {}
        self._taken: Store = {}
        self._loaded: Store = {}
        self._ahead: dict[str, int] = {}

    def replace(self, source: Source, objects: Iterable[Mapping[str, Any]]) -> None:
        """Replace all objects of a source. `objects` may come page by page; nothing changes until
        the last one.
        """
        entries: dict[Any, Any] = {}
        room = Room(self._rooms[source].size) if source.resource else None
        for value in objects:
            if self._overtaken(source, value):
                continue
            key, entry = self._read(source, value)
            if entry is not None and (not room or room.put(key, entries.get(key), entry)):
                entries[key] = entry
        with self._lock:
            before, self._listed[source] = self._listed[source], entries
            if room:
                self._rooms[source] = room
            if before != entries:
                self._change(source)

    def apply(self, source: Source, removed: bool, value: Mapping[str, Any]) -> None:
        """Take one event. `value` is the object as it is now, or as it was when it was removed."""
        key, entry = self._read(source, value)
        with self._lock:
            entries = self._listed[source]
            if entries is None:
                return
            if self._overtaken(source, value):
                return
            before = entries.get(key)
            if removed:
                entry = None
            if source.resource and not self._rooms[source].put(key, before, entry):
                entry = None
            if entry is None:
                entries.pop(key, None)
            else:
                entries[key] = entry
            if before != entry:
                self._change(source)

    def left_out(self, source: Source) -> list[stores.Key]:
        """The objects of a source for which there is no room in OPA; see sync.room."""
        with self._lock:
            room = self._rooms.get(source)
            return list(room.left_out) if room else []

    def looked_up(self, name: str, live: LiveNamespace) -> bool:
        """Record a live lookup of the namespace `name`; returns whether OPA may get the answer.

        `live` is what the API server has at this moment. After this answer, OPA must never get an
        older one. So events that are older than its version and still on their way are dropped from
        now on. Events that came already may be on their way into OPA. If they differ from the
        answer, OPA must have them first, and the result is False.
        """
        key = ("", name)
        answer = stores.canonical(self.thin(name, live.labels, live.annotations))
        with self._lock:
            holdings = [
                holdings or {}
                for source, holdings in self._listed.items()
                if source.store == NAMESPACES
            ]
            if any(
                objects.get(key) not in (self._loaded.get(key), answer)
                for objects in (self._taken, *holdings)
            ):
                return False
            if live.version.isdigit():
                self._ahead[name] = max(int(live.version), self._ahead.get(name, 0))
        return True

    def loaded(self, snapshot: Snapshot) -> None:
        """Record that OPA holds the namespaces of `snapshot`, the last one that was taken."""
        with self._lock:
            self._loaded = snapshot.stores.get(NAMESPACES) or {}

    def replicated(self, annotations: Labels | None) -> dict[str, str]:
        """Those of a namespace's annotations that have the key of a replicated label: a policy may
        take one for the other. Of a long one, there is the beginning with an ellipsis, which is the
        value of no label.
        """
        return {
            key: texts.shortened(annotations[key], _LONGEST)
            for key in self._labels
            if annotations and key in annotations
        }

    def thin(
        self, name: str, labels: Labels | None, annotations: Labels | None = None
    ) -> dict[str, Any]:
        """A namespace as OPA gets it: its name, its replicated labels and annotations, and the keys
        of the labels that it lacks (`absentLabels`).

        While settings change, a policy may ask for a label that is not replicated. By
        `absentLabels` it can tell such a label from one that the namespace lacks.
        """
        thin_labels = {key: labels[key] for key in self._labels if labels and key in labels}
        absent = [key for key in self._labels if key not in thin_labels]
        return {
            "metadata": {"name": name, "labels": thin_labels}
            | ({"absentLabels": absent} if absent else {})
            | ({"annotations": copied} if (copied := self.replicated(annotations)) else {})
        }

    def config_map(self, owner: Owner) -> ConfigMap | None:
        """The last known state of a ConfigMap; None if there is none."""
        with self._lock:
            for source, entries in self._listed.items():
                if source.store is None and entries and owner in entries:
                    config_map: ConfigMap = entries[owner]
                    return config_map
        return None

    def changed_at(self) -> float | None:
        """When the oldest change came that has not been taken (time.monotonic); None if all have
        been taken.
        """
        return self._changed_at

    def take(self) -> Snapshot:
        """The current desired state. All changes so far count as taken."""
        by_name: dict[str, Store | None] = {}
        config_maps: list[ConfigMap] = []
        unlisted: tuple[str, ...] = ()
        with self._lock:
            self._changed_at = None
            self.changed.clear()
            for source, entries in self._listed.items():
                if source.store:
                    if entries is not None and source not in self._stores:
                        self._stores[source] = dict(entries)
                    by_name[source.store] = self._stores.get(source)
                    if source.store == NAMESPACES:
                        self._taken = self._stores.get(source, {})
                elif entries is None:
                    unlisted = ("ConfigMaps",)
                else:
                    config_maps.extend(entries.values())
        return Snapshot(
            {each.item(key): text for each in config_maps for key, text in each.texts.items()},
            frozenset(each.item(key) for each in config_maps for key in each.problems),
            by_name,
            unlisted,
            tuple(config_maps),
        )

    def _overtaken(self, source: Source, value: Mapping[str, Any]) -> bool:
        """Whether this event is older than the last live lookup of its namespace.

        Versions are numbers that grow with time (KEP-5504), and a watch delivers events in order.
        So lookups that are older than this event can be forgotten.
        """
        if source.kind != "namespaces" or not self._ahead:
            return False
        version = str(value["metadata"].get("resourceVersion", ""))
        if not version.isdigit():
            return False
        with self._lock:
            if int(version) < self._ahead.get(value["metadata"]["name"], 0):
                return True
            self._ahead = {name: at for name, at in self._ahead.items() if at > int(version)}
        return False

    def _change(self, source: Source) -> None:
        self._stores.pop(source, None)
        self._changed_at = self._changed_at or time.monotonic()
        self.changed.set()

    def _read(self, source: Source, value: Mapping[str, Any]) -> tuple[Any, Any]:
        """The key of an object and the part of it that is kept; that part is None if the object
        does not belong to `source`.
        """
        metadata = value["metadata"]
        name: str = metadata["name"]
        if source.resource:
            return (metadata.get("namespace", ""), name), stores.canonical(
                source.resource.thin(value)
            )
        if source.kind == "namespaces":
            return ("", name), stores.canonical(
                self.thin(name, metadata.get("labels"), metadata.get("annotations"))
            )
        owner = (metadata["namespace"], name)
        # A ConfigMap with the label of policies and that of data holds data, as in kube-mgmt.
        label, data_value = DATA_LABEL
        if source.kind == "policies" and (metadata.get("labels") or {}).get(label) == data_value:
            return owner, None
        return owner, config_maps.read(owner, source.kind, value)

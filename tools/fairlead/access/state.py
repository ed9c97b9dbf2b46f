"""The transient bindings and their children as the API server tells of them: what is needed of
each, as JSON, because 10,000 parsed objects would take 100 MB."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any, NamedTuple

from fairlead.access.bindings import KINDS, Key, Kind, kind_of, owner_uid
from fairlead.sync.desired import Source

_FIELDS = ("name", "namespace", "uid", "generation", "deletionTimestamp")
_CHILD_FIELDS = ("name", "namespace", "uid", "labels", "annotations", "ownerReferences")
_UNCHANGING = ("metadata", "spec", "approvedBy")


class _Entry(NamedTuple):
    """An object: its resourceVersion, and what is needed of it."""

    version: int
    text: str


class State:
    """What is known, by key; safe for threads. `changed` is called with the key of a parent or a
    child that is new, gone or different, after the change.
    """

    def __init__(self, changed: Callable[[Key], None]) -> None:
        self._changed = changed
        self._lock = Lock()
        self._sources = {Source("objects", resource=kind.parents): (kind, True) for kind in KINDS}
        self._sources |= {
            Source("objects", resource=kind.children): (kind, False) for kind in KINDS
        }
        self._objects: dict[Source, dict[Key, _Entry]] = {source: {} for source in self._sources}
        self._newest = dict.fromkeys(self._sources, 0)  # the newest version that a watch told
        self._listed: set[Source] = set()

    @property
    def sources(self) -> list[Source]:
        """What is watched."""
        return list(self._sources)

    @property
    def complete(self) -> bool:
        """Whether everything was listed once."""
        return len(self._listed) == len(self._sources)

    def known(self) -> set[Key]:
        """The keys of all parents and children."""
        with self._lock:
            return {key for objects in self._objects.values() for key in objects}

    def count(self, *, parents: bool) -> int:
        """How many parents, or children, there are."""
        with self._lock:
            return sum(
                len(self._objects[source])
                for source, (_, of_parents) in self._sources.items()
                if of_parents is parents
            )

    def parent(self, key: Key) -> dict[str, Any] | None:
        """The transient binding, None if there is none."""
        return self._object(key, parents=True)

    def child(self, key: Key) -> dict[str, Any] | None:
        """RBAC's binding of this name that comes of a transient one, None if there is none."""
        return self._object(key, parents=False)

    def replace(self, source: Source, objects: Iterable[Mapping[str, Any]]) -> None:
        """Replace all objects of a source."""
        entries = (self._read(source, value) for value in objects)
        current = {key: entry for key, entry in entries if entry is not None}
        with self._lock:
            before, self._objects[source] = self._objects[source], current
            self._listed.add(source)
        for key in before.keys() | current.keys():
            self._tell(source, key, before.get(key), current.get(key))

    def apply(self, source: Source, removed: bool, value: Mapping[str, Any]) -> None:
        """Take one event, unless something newer is known."""
        key, entry = self._read(source, value)
        with self._lock:
            self._newest[source] = max(self._newest[source], _version(value))
            objects = self._objects[source]
            before = objects.get(key)
            if before and _version(value) < before.version:
                return
            after = None if removed else entry
            if after:
                objects[key] = after
            else:
                objects.pop(key, None)
        self._tell(source, key, before, after)

    def observe(self, key: Key, child: Mapping[str, Any]) -> None:
        """Take that the child was made as the API server has just answered, unless its watch has
        told that already, and maybe more.
        """
        source = self._source(key, parents=False)
        _, entry = self._read(source, child)
        with self._lock:
            if entry is None or self._newest[source] >= entry.version:
                return
            self._objects[source][key] = entry
        self._tell(source, key, None, entry)

    def forget(self, key: Key, child: Mapping[str, Any]) -> None:
        """Take that the child was deleted, and no other one of its name."""
        source = self._source(key, parents=False)
        with self._lock:
            before = self._objects[source].get(key)
            if not before or json.loads(before.text)["metadata"]["uid"] != child["metadata"]["uid"]:
                return
            del self._objects[source][key]
        self._tell(source, key, before, None)

    def _object(self, key: Key, *, parents: bool) -> dict[str, Any] | None:
        with self._lock:
            entry = self._objects[self._source(key, parents=parents)].get(key)
        return None if entry is None else dict(json.loads(entry.text))

    def _source(self, key: Key, *, parents: bool) -> Source:
        kind = kind_of(key)
        return Source("objects", resource=kind.parents if parents else kind.children)

    def _read(self, source: Source, value: Mapping[str, Any]) -> tuple[Key, _Entry | None]:
        kind, of_parents = self._sources[source]
        metadata = value["metadata"]
        key = (metadata.get("namespace") or "", metadata["name"])
        if of_parents:
            relevant = needed_of_parent(kind, value)
        elif owner_uid(value) is None:
            return key, None  # most bindings in the cluster are not ours
        else:
            relevant = needed_of_child(kind, value)
        return key, _Entry(_version(value), json.dumps(relevant))

    def _tell(self, source: Source, key: Key, before: _Entry | None, after: _Entry | None) -> None:
        texts = [entry.text if entry else None for entry in (before, after)]
        if self._differ(source, *texts):
            self._changed(key)

    def _differ(self, source: Source, before: str | None, after: str | None) -> bool:
        """Whether a decision may differ. The status is written here, and decides nothing."""
        if before is None or after is None or not self._sources[source][1]:
            return before != after
        old, new = json.loads(before), json.loads(after)
        return any(old.get(field) != new.get(field) for field in _UNCHANGING)


def _version(value: Mapping[str, Any]) -> int:
    """The resourceVersion, of which a newer one is larger (KEP-5504)."""
    return int(value["metadata"].get("resourceVersion") or 0)


def needed_of_parent(kind: Kind, value: Mapping[str, Any]) -> dict[str, Any]:
    """What a decision needs of a parent."""
    return {
        "apiVersion": f"{kind.parents.group}/{kind.parents.version}",
        "kind": kind.parent,
        "metadata": _chosen(value["metadata"], _FIELDS),
        **_chosen(value, ("spec", "approvedBy", "status")),
    }


def needed_of_child(kind: Kind, value: Mapping[str, Any]) -> dict[str, Any]:
    """What a decision, and a comparison, needs of a child."""
    return {
        "apiVersion": f"{kind.children.group}/{kind.children.version}",
        "kind": kind.child,
        "metadata": _chosen(value["metadata"], _CHILD_FIELDS),
        **_chosen(value, ("roleRef", "subjects")),
    }


def _chosen(value: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    return {field: value[field] for field in fields if value.get(field) is not None}

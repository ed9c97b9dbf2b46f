"""The transient bindings that have not ended, and their children, as the API server tells of them:
only what says when something is due. What users write can have megabytes and is read again when it
is needed, so that each entry takes at most KILOBYTES of memory.

Users also say how many there are. So one namespace has at most OF_NAMESPACE transient bindings
here, and all together OF_ALL; any further ones are left out until others have ended.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from fairlead.access import bindings
from fairlead.access.bindings import KINDS, Key, kind_of
from fairlead.sync.desired import Source

OF_NAMESPACE = 1_000
OF_ALL = 10_000
KILOBYTES = 3
"""The most of a transient binding with its child, of names as long as they can be."""
LEFT_OUT = 1_000
"""The most keys of those left out that wait for a condition which says so."""


class Parent(NamedTuple):
    """What is known of a transient binding. Times are in nanoseconds since the epoch, None if there
    is none. `content` is a digest of all that a decision depends on.
    """

    version: int
    uid: str
    goes: bool
    begin: int | None
    end: int | None
    content: bytes


class Child(NamedTuple):
    """What is known of a binding: its owner's uid, its end, and who loses what with it."""

    version: int
    uid: str
    owner: str
    end: int | None
    loss: str


Entry = Parent | Child


class State:
    """What is known, by key; safe for threads. `changed` is called with the key of a parent or a
    child that is new, gone or different, after the change.
    """

    def __init__(self, changed: Callable[[Key], None]) -> None:
        self._changed = changed
        self._lock = Lock()
        self.parents: Sequence[Source] = tuple(
            Source("objects", resource=kind.parents) for kind in KINDS
        )
        """What is watched of transient bindings."""
        self._children = tuple(Source("objects", resource=kind.children) for kind in KINDS)
        self._entries: dict[Source, dict[Key, Entry]] = {source: {} for source in self.sources}
        self._newest = dict.fromkeys(self.sources, 0)  # the newest version that a watch told
        self._listed: set[Source] = set()
        self._counts = {source: Counter[str]() for source in self.sources}  # by namespace
        self._left_out: dict[Key, None] = {}
        self.crowded = False
        """Whether any transient binding was left out since this was set to False."""

    @property
    def sources(self) -> list[Source]:
        """What is watched: parents, then children."""
        return [*self.parents, *self._children]

    def selector(self, source: Source) -> Mapping[str, str]:
        """By which objects of a source are chosen."""
        return bindings.SELECTOR if source in self._children else {}

    @property
    def complete(self) -> bool:
        """Whether everything was listed once."""
        return len(self._listed) == len(self._entries)

    def known(self) -> set[Key]:
        """The keys of all parents and children, and of those that are left out."""
        with self._lock:
            keys = {key for entries in self._entries.values() for key in entries}
            return keys | self._left_out.keys()

    def count(self, *, parents: bool) -> int:
        """How many parents, or children, there are."""
        with self._lock:
            sources = self.parents if parents else self._children
            return sum(len(self._entries[source]) for source in sources)

    def parent(self, key: Key) -> Parent | None:
        """The transient binding, None if there is none, it has ended, or it is left out."""
        entry = self._entry(key, parents=True)
        return entry if isinstance(entry, Parent) else None

    def child(self, key: Key) -> Child | None:
        """RBAC's binding of this name that comes of a transient one, None if there is none."""
        entry = self._entry(key, parents=False)
        return entry if isinstance(entry, Child) else None

    def take_left_out(self, key: Key) -> bool:
        """Whether a transient binding is left out, for the one who says so in its status: once."""
        with self._lock:
            return self._left_out.pop(key, "") is None

    def replace(self, source: Source, objects: Iterable[Mapping[str, Any]]) -> None:
        """Replace all objects of a source."""
        current: dict[Key, Entry] = {}
        counts: Counter[str] = Counter()
        for value in objects:
            key, entry = self._read(source, value)
            if entry is None:
                continue
            if isinstance(entry, Parent) and not self._fits(source, key[0], counts):
                self._leave_out(key, value)
                continue
            current[key] = entry
            counts[key[0]] += 1
        with self._lock:
            before, self._entries[source] = self._entries[source], current
            self._counts[source] = counts
            self._listed.add(source)
        for key in before.keys() | current.keys():
            self._tell(key, before.get(key), current.get(key))

    def apply(self, source: Source, removed: bool, value: Mapping[str, Any]) -> None:
        """Take one event, unless something newer is known."""
        key, entry = self._read(source, value)
        with self._lock:
            self._newest[source] = max(self._newest[source], _version(value))
            before = self._entries[source].get(key)
            if before and _version(value) < before.version:
                return
            after = None if removed else entry
            fits = (
                before is not None
                or not isinstance(after, Parent)
                or self._fits(source, key[0], self._counts[source])
            )
            if fits:
                self._put(source, key, after)
        if fits:
            self._tell(key, before, after)
        else:
            self._leave_out(key, value)

    def observe(self, key: Key, child: Mapping[str, Any]) -> None:
        """Take that the child was made as the API server has just answered, unless its watch has
        told that already, and maybe more.
        """
        source = self._source(key, parents=False)
        _, entry = self._read(source, child)
        with self._lock:
            if entry is None or self._newest[source] >= entry.version:
                return
            self._put(source, key, entry)
        self._tell(key, None, entry)

    def forget(self, key: Key, uid: str, *, parents: bool = False) -> None:
        """Take that the child, or the parent, of this uid is gone."""
        source = self._source(key, parents=parents)
        with self._lock:
            before = self._entries[source].get(key)
            if not before or before.uid != uid:
                return
            self._put(source, key, None)
        self._tell(key, before, None)

    def _put(self, source: Source, key: Key, entry: Entry | None) -> None:
        entries, counts = self._entries[source], self._counts[source]
        if entry is not None:
            counts[key[0]] += key not in entries
            entries[key] = entry
        elif entries.pop(key, None):
            counts[key[0]] -= 1
            if not counts[key[0]]:
                del counts[key[0]]

    def _fits(self, source: Source, namespace: str, counts: Counter[str]) -> bool:
        """Whether there is room for one more parent beside so many by namespace."""
        others = sum(len(self._entries[each]) for each in self.parents if each != source)
        return counts[namespace] < OF_NAMESPACE and counts.total() + others < OF_ALL

    def _leave_out(self, key: Key, value: Mapping[str, Any]) -> None:
        self.crowded = True
        if bindings.condition(value, bindings.EFFECTIVE).get("reason") == bindings.TOO_MANY:
            return
        with self._lock:
            if len(self._left_out) >= LEFT_OUT:
                return
            self._left_out[key] = None
        self._changed(key)

    def _entry(self, key: Key, *, parents: bool) -> Entry | None:
        with self._lock:
            return self._entries[self._source(key, parents=parents)].get(key)

    def _source(self, key: Key, *, parents: bool) -> Source:
        kind = kind_of(key)
        return Source("objects", resource=kind.parents if parents else kind.children)

    def _read(self, source: Source, value: Mapping[str, Any]) -> tuple[Key, Entry | None]:
        metadata = value["metadata"]
        key = (metadata.get("namespace") or "", metadata["name"])
        if source in self._children:
            return key, child(value) if bindings.owner_uid(value) else None
        return key, None if _is_over(value) else _parent(value)

    def _tell(self, key: Key, before: Entry | None, after: Entry | None) -> None:
        if before is None or after is None:
            differ = before is not after
        elif isinstance(after, Parent):  # only its status may be new, which is written here
            differ = before[1:] != after[1:]
        else:
            differ = before != after
        if differ:
            self._changed(key)


def child(value: Mapping[str, Any]) -> Child:
    """What is kept of a binding that comes of a transient one."""
    return Child(
        _version(value),
        value["metadata"]["uid"],
        bindings.owner_uid(value) or "",
        bindings.until(value),
        bindings.lost(value),
    )


def _version(value: Mapping[str, Any]) -> int:
    """The resourceVersion, of which a newer one is larger (KEP-5504)."""
    return int(value["metadata"].get("resourceVersion") or 0)


def _parent(value: Mapping[str, Any]) -> Parent:
    metadata, spec = value["metadata"], value["spec"]
    content = json.dumps([spec, value.get("approvedBy")], ensure_ascii=False, sort_keys=True)
    return Parent(
        _version(value),
        metadata["uid"],
        bindings.goes(value),
        bindings.instant(spec.get("validFrom")),
        bindings.instant(spec.get("validUntil")),
        hashlib.blake2b(content.encode(errors="surrogatepass"), digest_size=16).digest(),
    )


def _is_over(value: Mapping[str, Any]) -> bool:
    """Whether the window of a transient binding is over and its status says so: there is nothing
    left to do.
    """
    reason = bindings.condition(value, bindings.EFFECTIVE).get("reason")
    end = bindings.instant(value["spec"].get("validUntil"))
    return reason == bindings.EXPIRED and end is not None and end <= time.time_ns()

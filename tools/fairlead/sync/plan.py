"""What is missing between what OPA should hold and what it serves, as operations; asks nobody and does nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fairlead.sync.desired import ConfigMap, Item, Labels, Snapshot
from fairlead.sync.problem import Problem

SINGLE = 100
"""Up to so many changed namespaces are written one by one; beyond, all of them in one request."""

RETRY = (30.0, 60.0)
"""Seconds after which what OPA rejected is tried again though nothing that we know of has changed."""


@dataclass(frozen=True, slots=True)
class Put:
    """Load a policy or a document."""

    item: Item
    text: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Take away a policy or a document."""

    item: Item


@dataclass(frozen=True, slots=True)
class PutNamespaces:
    """Write all namespaces in one request, so that nobody ever sees some of them."""

    namespaces: Mapping[str, Labels]


@dataclass(frozen=True, slots=True)
class PutNamespace:
    """Write one namespace, or remove it where `labels` is None."""

    name: str
    labels: Labels | None


Operation = Put | Remove | PutNamespaces | PutNamespace


@dataclass
class Served:
    """What OPA holds: policies with their text, documents with a fingerprint, namespaces or None where undefined.

    A namespace whose document is not of our form has None for labels.
    """

    policies: dict[str, str] = field(default_factory=dict)
    documents: dict[str, str] = field(default_factory=dict)
    namespaces: dict[str, Labels | None] | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """That OPA declined something at a time when `generation` things had been changed in it."""

    problem: Problem
    generation: int
    retry_at: float


@dataclass
class Memory:
    """What the reconciler knows of its OPA beside what OPA serves.

    `accepted` is the text that OPA last took of each item, which is put back when OPA loses it while a newer text is
    rejected. `fingerprints` are of documents as OPA served them right after it took them. `owned` is what the sidecar
    (this one or one before it) put into OPA: only that does it ever remove.
    """

    accepted: dict[Item, str] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    rejected: dict[tuple[Item, str | None], Rejection] = field(default_factory=dict)
    owned: set[Item] = field(default_factory=set)
    generation: int = 0

    def accept(self, operation: Put | Remove, fingerprint: str | None = None) -> None:
        """Remember that OPA did it, which may make possible what it declined before."""
        self.generation += 1
        self.rejected.pop((operation.item, _text(operation)), None)
        if isinstance(operation, Remove):
            self.accepted.pop(operation.item, None)
            self.owned.discard(operation.item)
            return
        self.accepted[operation.item] = operation.text
        if fingerprint is not None:
            self.fingerprints[operation.item[1]] = fingerprint

    def reject(self, operation: Put | Remove, reason: Problem, now: float) -> None:
        """Remember that OPA declined, so that it is asked again only when something changed, or much later."""
        later = now + random.uniform(*RETRY)  # noqa: S311 - spreads retries, keeps no secret
        self.rejected[operation.item, _text(operation)] = Rejection(reason, self.generation, later)

    def waits(self, item: Item, text: str | None, now: float) -> bool:
        """Whether OPA declined this very text (None: the removal) and nothing has changed since."""
        before = self.rejected.get((item, text))
        return before is not None and before.generation == self.generation and now < before.retry_at

    def adopt(self, desired: Snapshot, served: Served) -> None:
        """Take what OPA serves as accepted where nothing is known, and forget what no longer matters."""
        for item in (*desired.texts, *desired.kept):
            kind, id_ = item
            if kind == "policy" and item not in self.accepted and id_ in served.policies:
                self.accepted[item] = served.policies[id_]
        for item, text in list(self.rejected):
            if text not in (desired.texts.get(item), self.accepted.get(item)):
                del self.rejected[item, text]

    def restarted(self) -> None:
        """OPA lost everything: all that was rejected may be accepted now."""
        self.rejected.clear()
        self.fingerprints.clear()
        self.generation += 1


def operations(desired: Snapshot, served: Served, memory: Memory, now: float) -> list[Operation]:
    """What to do next, in this order: namespaces, documents, policies, removals; `now` in seconds, monotonic.

    An operation that OPA declines may be accepted after others: call again until nothing is returned. An OPA without
    namespaces gets no policies before them: it would decide as if there were none.
    """
    wanted = dict(_wanted(desired, served, memory, now))
    puts = [Put(item, text) for item, text in sorted(wanted.items()) if not right(item, text, served, memory)]
    if served.namespaces is None and desired.namespaces is None:
        puts = [put for put in puts if put.item[0] == "document"]
    removes: list[Operation] = []
    if desired.complete:
        gone = memory.owned - desired.texts.keys() - desired.kept
        removes = [Remove(item) for item in sorted(gone, reverse=True) if not memory.waits(item, None, now)]
    return [*_namespaces(desired, served), *puts, *removes]


def right(item: Item, text: str, served: Served, memory: Memory) -> bool:
    """Whether OPA holds `text` for `item`."""
    kind, id_ = item
    if kind == "policy":
        return served.policies.get(id_) == text
    held = served.documents.get(id_)
    return held is not None and memory.accepted.get(item) == text and memory.fingerprints.get(id_) == held


def ours(served: Served, memory: Memory) -> Served:
    """Of what OPA serves, that which a sidecar put there."""
    ids = {id_ for _, id_ in memory.owned}
    policies = {id_: text for id_, text in served.policies.items() if id_ in ids}
    return Served(policies, served.documents, served.namespaces)


def problems(config_map: ConfigMap, served: Served, memory: Memory) -> list[Problem] | None:
    """What is wrong with a ConfigMap, key by key; None where it has not been settled yet."""
    found = dict(config_map.problems)
    for key, text in config_map.texts.items():
        item = config_map.item(key)
        if right(item, text, served, memory):
            continue
        rejection = memory.rejected.get((item, text))
        if rejection is None:
            return None
        found[key] = rejection.problem
    return [found[key] for key in sorted(found)]


def _wanted(desired: Snapshot, served: Served, memory: Memory, now: float) -> Iterator[tuple[Item, str]]:
    """The text to try for each item: the new one, or where that cannot be loaded, the one that was in force."""
    for item, text in desired.texts.items():
        if not memory.waits(item, text, now):
            yield item, text
        elif item in memory.accepted and not memory.waits(item, memory.accepted[item], now):
            yield item, memory.accepted[item]
    for item in desired.kept:
        if item in memory.accepted and not memory.waits(item, memory.accepted[item], now):
            yield item, memory.accepted[item]


def _namespaces(desired: Snapshot, served: Served) -> list[Operation]:
    if desired.namespaces is None:
        return []
    if served.namespaces is None:
        return [PutNamespaces(desired.namespaces)]
    changed: list[Operation] = [
        PutNamespace(name, labels)
        for name, labels in desired.namespaces.items()
        if served.namespaces.get(name) != labels
    ]
    changed += [PutNamespace(name, None) for name in served.namespaces if name not in desired.namespaces]
    return changed if len(changed) <= SINGLE else [PutNamespaces(desired.namespaces)]


def _text(operation: Put | Remove) -> str | None:
    return operation.text if isinstance(operation, Put) else None

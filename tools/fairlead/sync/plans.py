"""Plans the operations that bring OPA to what it should hold, and remembers what OPA accepted and
rejected. Nothing here sends."""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from fairlead.policy.revision import STAGE, switches
from fairlead.sync import policy_problems
from fairlead.sync.config_maps import ConfigMap, Item
from fairlead.sync.desired import Snapshot
from fairlead.sync.policy_problems import Problem
from fairlead.sync.stores import Store

RETRY = (30.0, 60.0)
"""Seconds after which a rejected text is tried again although nothing is known to have changed."""


@dataclass(frozen=True, slots=True)
class Put:
    """Load a policy or a document.

    `stands_for` is set if the text belongs to another item, and `item` is due for removal. OPA
    cannot replace two policies at once. If a new policy conflicts with one that is to be removed,
    the new text is loaded under the old id, which shows whether OPA accepts it instead.
    """

    item: Item
    text: str
    stands_for: Item | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a policy or a document."""

    item: Item


@dataclass(frozen=True, slots=True)
class Replicate:
    """Bring the store `name` in OPA from `current`, None if OPA has no such store, to `target`."""

    name: str
    target: Store
    current: Store | None


Operation = Put | Remove | Replicate


@dataclass
class Served:
    """What OPA holds: policies with their text, documents with a fingerprint, and stores (None if
    undefined).
    """

    policies: dict[str, str] = field(default_factory=dict)
    documents: dict[str, str] = field(default_factory=dict)
    stores: dict[str, Store | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rejection:
    """OPA's refusal of an operation, at the time when it had seen `generation` changes."""

    problem: Problem
    generation: int
    retry_at: float


@dataclass
class Memory:
    """What the reconciler remembers about its OPA besides what OPA serves.

    `accepted` has the last text of each item that OPA accepted, in the order in which OPA did. It
    is loaded again if OPA loses it while a newer text is rejected. `fingerprints` are those of
    documents as OPA served them right after it accepted them. `owned` are the items that the
    sidecar (this process or an earlier one) put into OPA. It never removes anything else.
    """

    accepted: dict[Item, str] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    rejected: dict[tuple[Item, str | None], Rejection] = field(default_factory=dict)
    owned: set[Item] = field(default_factory=set)
    generation: int = 0

    def accept(self, operation: Put | Remove, fingerprint: str | None = None) -> None:
        """Record that OPA accepted an operation. Texts that it rejected before may now be
        possible.
        """
        self.generation += 1
        self.rejected.pop((operation.item, _text(operation)), None)
        if isinstance(operation, Remove):
            self.accepted.pop(operation.item, None)
            self.owned.discard(operation.item)
            return
        self.accepted.pop(operation.item, None)
        self.accepted[operation.item] = operation.text
        if fingerprint is not None:
            self.fingerprints[operation.item[1]] = fingerprint

    def reject(self, operation: Put | Remove, reason: Problem, now: float) -> None:
        """Record that OPA rejected an operation, which is tried again only after a change or much
        later.
        """
        later = now + random.uniform(*RETRY)  # noqa: S311 - spreads retries, keeps no secret
        self.rejected[operation.item, _text(operation)] = Rejection(reason, self.generation, later)
        if isinstance(operation, Put) and operation.stands_for:
            renamed = policy_problems.renamed(reason, operation.item[1], operation.stands_for[1])
            self.rejected[operation.stands_for, operation.text] = Rejection(
                renamed, self.generation, later
            )

    def waits(self, item: Item, text: str | None, now: float) -> bool:
        """Whether OPA rejected this text (None: the removal) and nothing has changed since."""
        before = self.rejected.get((item, text))
        return before is not None and before.generation == self.generation and now < before.retry_at

    def adopt(self, desired: Snapshot, opa_state: Served) -> None:
        """Count the texts that OPA serves as accepted if nothing is known about them, and forget
        rejections of outdated texts.
        """
        for item in (*desired.texts, *desired.broken):
            kind, id_ = item
            if kind == "policy" and item not in self.accepted and id_ in opa_state.policies:
                self.accepted[item] = opa_state.policies[id_]
        stand_ins = {(_of(item), text) for item, text in desired.texts.items()}
        for item, text in list(self.rejected):
            if (
                text not in (desired.texts.get(item), self.accepted.get(item))
                and (_of(item), text) not in stand_ins
            ):
                del self.rejected[item, text]

    def restarted(self) -> None:
        """Record that OPA lost everything, so that it may accept what it rejected before."""
        self.rejected.clear()
        self.fingerprints.clear()
        self.generation += 1


def operations(
    desired: Snapshot,
    opa_state: Served,
    memory: Memory,
    now: float,
    *,
    without: Container[str] = (),
) -> list[Operation]:
    """The next operations; `now` is time.monotonic(). Call this again until it returns none.

    There are four steps: stores (except those in `without`) and documents; new policies; changed
    policies; removals. OPA may accept a rejected text after another one, so each step is repeated
    until OPA accepts nothing more, and then the next step follows. In this order a new revision is
    loaded beside the old one, and a changed policy for each package that callers ask for switches
    to it. While a store is neither in OPA nor known, no policies are returned, because they would
    decide as if the store were empty.

    Small policies come first: for each one, OPA compiles all that it has, so a large one that is
    loaded last, and removed first, makes that faster for the others.
    """
    wanted_texts = dict(_wanted(desired, opa_state, memory, now))
    puts = [
        Put(item, text)
        for item, text in sorted(wanted_texts.items())
        if not is_current(item, text, opa_state, memory)
    ]
    documents = [write for write in puts if write.item[0] == "document"]
    if first := [*_stores(desired, opa_state, without), *documents]:
        return first
    policies = [write for write in puts if write.item[0] == "policy"]
    if any(opa_state.stores.get(name) is None for name in desired.unknown):
        policies = []
    if new := [write for write in policies if write.item[1] not in opa_state.policies]:
        return [*sorted(new, key=lambda policy: len(policy.text))]
    if changed := [
        write for write in policies if not _held(write.item, write.text, desired, opa_state, memory)
    ]:
        return [*changed]
    return _removals(desired, opa_state, memory, now) if desired.complete else []


def is_current(item: Item, text: str, opa_state: Served, memory: Memory) -> bool:
    """Whether OPA holds `text` for `item`."""
    kind, id_ = item
    if kind == "policy":
        return opa_state.policies.get(id_) == text
    fingerprint = opa_state.documents.get(id_)
    return (
        fingerprint is not None
        and memory.accepted.get(item) == text
        and memory.fingerprints.get(id_) == fingerprint
    )


def ours(opa_state: Served, memory: Memory) -> Served:
    """The part of `opa_state` that a sidecar put into OPA."""
    ids = {id_ for _, id_ in memory.owned}
    policies = {id_: text for id_, text in opa_state.policies.items() if id_ in ids}
    return Served(policies, opa_state.documents, opa_state.stores)


def problems(config_map: ConfigMap, opa_state: Served, memory: Memory) -> list[Problem] | None:
    """The problems of a ConfigMap, ordered by key; None if OPA has neither accepted nor rejected
    all of it yet.
    """
    by_key = dict(config_map.problems)
    items = {config_map.item(key) for key in (*config_map.texts, *config_map.problems)}
    unsettled = []
    for key, text in config_map.texts.items():
        item = config_map.item(key)
        if is_current(item, text, opa_state, memory) or _stands_in(
            item, text, memory.owned - items, opa_state
        ):
            continue
        rejection = memory.rejected.get((item, text))
        if rejection is None:
            unsettled.append(text)
        else:
            by_key[key] = rejection.problem
    # Staged texts that wait for a rejected one will not get any further.
    if unsettled and not (by_key and all(map(STAGE.search, unsettled))):
        return None
    return [by_key[key] for key in sorted(by_key)]


def _held(item: Item, text: str, desired: Snapshot, opa_state: Served, memory: Memory) -> bool:
    """Whether a policy that switches to another revision (see fairlead.policy.staging) must wait
    for the other policies of that revision.

    Until OPA holds all other items of the ConfigMap, the whole previous revision stays in force.
    """
    if not STAGE.search(text):
        return False
    peers = {
        peer: text
        for peer, text in desired.texts.items()
        if _of(peer) == _of(item) and not switches(peer[1].rpartition("/")[2], text)
    }
    leaving = memory.owned - desired.texts.keys() - desired.broken
    return any(_of(peer) == _of(item) for peer in desired.broken) or not all(
        is_current(peer, text, opa_state, memory) or _stands_in(peer, text, leaving, opa_state)
        for peer, text in peers.items()
    )


def _wanted(
    desired: Snapshot, opa_state: Served, memory: Memory, now: float
) -> Iterator[tuple[Item, str]]:
    """The text to try for each item: the new one, or the last accepted one if the new one cannot
    be loaded.
    """
    for item, text in desired.texts.items():
        if not memory.waits(item, text, now):
            yield item, text
        elif item in memory.accepted and not memory.waits(item, memory.accepted[item], now):
            yield item, memory.accepted[item]
    for item in desired.broken:
        if item in memory.accepted and not memory.waits(item, memory.accepted[item], now):
            yield item, memory.accepted[item]


def _stores(desired: Snapshot, opa_state: Served, without: Container[str]) -> list[Operation]:
    operations: list[Operation] = []
    for name, store in desired.stores.items():
        actual = opa_state.stores.get(name)
        if store is not None and actual is not store and actual != store and name not in without:
            operations.append(Replicate(name, store, actual))
    return operations


def _removals(desired: Snapshot, opa_state: Served, memory: Memory, now: float) -> list[Operation]:
    """The removals, except those of a ConfigMap whose new content OPA does not fully hold: its old
    content may still need the items.

    What OPA accepted last is removed first, because OPA keeps a policy whose functions others use.
    If OPA rejected a text only because it conflicts with a policy that is due for removal, the text
    is first loaded under that policy's id.
    """
    accepted = {item: number for number, item in enumerate(memory.accepted)}
    leaving = sorted(
        memory.owned - desired.texts.keys() - desired.broken,
        key=lambda item: (accepted.get(item, len(accepted)), item),
        reverse=True,
    )
    owners = {_of(item) for item in desired.broken}
    stand_ins: list[Operation] = []
    for item, text in desired.texts.items():
        if is_current(item, text, opa_state, memory):
            continue
        if _stands_in(item, text, leaving, opa_state):
            continue
        owners.add(_of(item))
        rejection = memory.rejected.get((item, text))
        if rejection and policy_problems.conflicts(rejection.problem):
            before = [peer for peer in leaving if peer[0] == "policy" and _of(peer) == _of(item)]
            stand_ins += [
                Put(peer, text, item) for peer in before if not memory.waits(peer, text, now)
            ]
    if stand_ins:
        return stand_ins
    return [
        Remove(item)
        for item in leaving
        if _of(item) not in owners and not memory.waits(item, None, now)
    ]


def _stands_in(item: Item, text: str, leaving: Iterable[Item], opa_state: Served) -> bool:
    """Whether OPA holds the text of a policy under another id of its ConfigMap, one that is due
    for removal.
    """
    peers = (id_ for kind, id_ in leaving if kind == "policy" and _of((kind, id_)) == _of(item))
    return any(opa_state.policies.get(id_) == text for id_ in peers)


def _of(item: Item) -> tuple[str, str]:
    """The ConfigMap of an item, by its kind and by <namespace>/<configmap>."""
    return item[0], item[1].rpartition("/")[0]


def _text(operation: Put | Remove) -> str | None:
    return operation.text if isinstance(operation, Put) else None

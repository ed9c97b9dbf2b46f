"""Reconciles one OPA with its desired state, also after OPA restarts or somebody changes it."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from threading import Event
from typing import Any

from fairlead.common import texts
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import CONFIRMED
from fairlead.kube.resources import Resource
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import Rejected, describe
from fairlead.sync import loops, plans, policy_problems, refusals, stores
from fairlead.sync.config_maps import ConfigMap, Item, Owner, Verdict
from fairlead.sync.desired import NAMESPACES, Desired, Snapshot
from fairlead.sync.metrics import Metrics
from fairlead.sync.policy_problems import Problem
from fairlead.sync.refusals import MARKER, SYSTEM
from fairlead.sync.stores import Store

log = logging.getLogger(__name__)

_FINER = 1_000_000_000
"""Nanoseconds by which the confirmed time may be out of date. Each write makes OPA prepare its
queries again."""

TICK = 0.5
"""Seconds between two reads of the marker, which cost OPA next to nothing."""

COMPARE = (2.0, 10.0)
"""The shortest and longest pause between two reads of all that OPA serves, in seconds. They take a
hundredth of the time within these bounds: only somebody else with the token makes them necessary,
and OPA answers with syntax trees, which is costly. A restart of OPA is seen from the marker."""

_REPLICATED = "kubernetes"
"""The document of OPA that has the replicated objects."""

Report = Callable[[dict[Owner, Verdict]], None]


class Reconciler:
    """Drives one OPA to the desired state. One thread calls `run`; other threads may read the
    attributes.
    """

    def __init__(
        self,
        desired: Desired,
        connect: Callable[[], OpaApi],
        report: Report,
        metrics: Metrics,
        *,
        confirmed: Callable[[], float | None] = lambda: None,
        max_staleness: int | None = None,
        resources: Sequence[Resource] = (),
        system: str | None = SYSTEM,
    ) -> None:
        """`connect` returns a client with the current credentials. `report` gets the problems of
        each ConfigMap.

        `confirmed` returns the time up to which the whole state of the cluster is known
        (time.monotonic), or None. `max_staleness` is the number of seconds that OPA stays Ready
        after that time, None for ever. `resources` are replicated besides namespaces. `system` is
        the only ConfigMap (<namespace>/<configmap>) that may define the package system, None for
        any.
        """
        self.trouble: str | None = "OPA has not been loaded yet"
        """Why OPA may not hold what it should; None while it does."""
        self.rejected: tuple[str, ...] = ()
        """Policies and documents that OPA rejected. Their previous content stays in force."""
        self.looked = float("-inf")
        """When the last cycle succeeded (time.monotonic)."""
        self.confirmed: int | None = None
        """The time up to which OPA is known to hold the state of the cluster, in nanoseconds since
        the epoch."""
        self._known = confirmed
        self._max_staleness = max_staleness
        self._desired = desired
        self._connect = connect
        self._report = report
        self._metrics = metrics
        self._namespaced = {NAMESPACES: False} | {
            resource.name: resource.namespaced for resource in resources
        }
        self._paths = {name: [_REPLICATED, name] for name in self._namespaced}
        self._system = system
        self._instance = secrets.token_hex(8)
        self._memory = plans.Memory()
        self._served = plans.Served()
        self._written: dict[str, Any] | None = None
        self._verdicts: dict[Owner, Verdict] = {}
        self._compare_at = float("-inf")
        self._behind: float | None = time.monotonic()

    def run(self, stop: Event, turn: Callable[[], None]) -> None:
        """Reconcile after every change and every tick until `stop` is set. Failures are logged and
        retried.
        """
        loops.repeat(self._step, stop, self._failed, turn=turn, longest=1.0)

    def cycle(self) -> None:
        """Compare the states if it is time to, and send what is missing. Raises FairleadError if
        OPA cannot be reached.
        """
        self._behind = self._behind or self._desired.changed_at()
        opa = self._connect()
        confirmed = self._known()  # before the desired state is taken, which may be newer
        desired = self._desired.take()
        self._look(opa, desired)
        self._memory.adopt(desired, self._served)
        unwritable = self._apply(opa, desired)
        # If nothing changes, the next snapshot has the same objects, and comparing them is free.
        replicated = {
            name: objects for name, objects in desired.stores.items() if objects is not None
        }
        self._served.stores |= {
            name: objects for name, objects in replicated.items() if name not in unwritable
        }
        if NAMESPACES not in unwritable:
            self._desired.loaded(desired)
        self._note_owned(opa)
        self.looked = time.monotonic()
        self._settle(desired, unwritable)
        if confirmed is not None and self.trouble is None:
            self._confirm(opa, confirmed)

    def _step(self) -> None:
        self.cycle()
        self._desired.changed.wait(TICK)

    @property
    def replicated(self) -> list[list[str]]:
        """The paths in OPA's data to which objects are replicated."""
        return list(self._paths.values())

    def lag(self) -> float:
        """For how many seconds OPA has not held the desired state; 0 while it does."""
        start = self._behind or self._desired.changed_at()
        return 0.0 if start is None else time.monotonic() - start

    def _look(self, opa: OpaApi, desired: Snapshot) -> None:
        """Read the marker, and from time to time everything that OPA serves."""
        marker = opa.document([MARKER])
        if not isinstance(marker, dict) or marker.get("instance") != self._instance:
            log.info("OPA at %s has nothing from this process: loading everything", opa.url)
            self._metrics.resyncs.inc()
            self._memory.restarted()
            self._memory.owned |= _owned(marker)
            self._written = self.confirmed = None
            self._behind = self._behind or time.monotonic()
        elif time.monotonic() < self._compare_at:
            return
        began = time.monotonic()
        before = self._served
        self._served = plans.Served(
            opa.policies(),
            self._fingerprints(opa, desired),
            {name: self._store(opa, name, desired.stores.get(name)) for name in self._paths},
        )
        if self._written is not None and before != self._served:
            self._memory.generation += 1
            if plans.ours(before, self._memory) != plans.ours(self._served, self._memory):
                log.warning("OPA at %s was changed by someone else: restoring it", opa.url)
        now = time.monotonic()
        self._compare_at = now + min(max(COMPARE[0], 100 * (now - began)), COMPARE[1])

    def _fingerprints(self, opa: OpaApi, desired: Snapshot) -> dict[str, str]:
        fingerprints = {}
        for kind, id_ in (*desired.texts, *desired.broken):
            if kind == "document" and id_ in self._memory.fingerprints:
                fingerprints[id_] = _fingerprint(opa.document(id_.split("/")))
        return fingerprints

    def _store(self, opa: OpaApi, name: str, expected: Store | None) -> Store | None:
        """What OPA holds of a store, or None if there is none. If it equals `expected`, that same
        object is returned.

        It is read namespace by namespace, because the whole may be too large for our memory.
        """
        path, namespaced = self._paths[name], self._namespaced[name]
        parts: Iterator[Any] = iter([opa.document(path)])
        if namespaced:
            keys = opa.keys(path)
            if not keys and not isinstance(opa.document(path), dict):
                return None
            parts = ({key: opa.document([*path, key])} for key in keys)
        store: dict[stores.Key, str] = {}
        for part in parts:
            if not isinstance(part, dict):
                return None
            for key, value in stores.read(part, namespaced=namespaced):
                text = stores.canonical(value)
                expected_text = expected.get(key) if expected else None
                store[key] = (
                    expected_text if expected_text is not None and text == expected_text else text
                )
        return expected if expected is not None and store == expected else store

    def _apply(self, opa: OpaApi, desired: Snapshot) -> dict[str, str]:
        """Carry out all operations that OPA accepts. Returns the reasons why stores could not be
        written, by name.
        """
        unwritable: dict[str, str] = {}
        while True:
            now = time.monotonic()
            todo = plans.operations(desired, self._served, self._memory, now, without=unwritable)
            if not todo:
                return unwritable
            self._behind = self._behind or now
            self._memory.owned |= {
                operation.item for operation in todo if isinstance(operation, plans.Put)
            }
            self._note_owned(opa)
            for operation in self._at_once(opa, todo):
                try:
                    self._do(opa, operation, desired)
                except Rejected as error:
                    if isinstance(operation, plans.Replicate):
                        unwritable[operation.name] = f"OPA rejected {operation.name}: {error}"
                        self._compare_at = float("-inf")
                        continue
                    kind, id_ = operation.item
                    reason = (
                        policy_problems.of_answer(id_, error.error)
                        if kind == "document"
                        else error.error
                    )
                    self._memory.reject(operation, reason, time.monotonic())
                    log.debug("OPA rejected %s", error)

    def _at_once(self, opa: OpaApi, todo: Sequence[plans.Operation]) -> Sequence[plans.Operation]:
        """Load or remove all policies in one request, if OPA takes them together. Returns the
        operations that have to be carried out one by one, which shows what is wrong with which.
        """
        changes = [
            operation
            for operation in todo
            if not isinstance(operation, plans.Replicate) and operation.item[0] == "policy"
        ]
        puts = [change for change in changes if isinstance(change, plans.Put)]
        removed = [change.item[1] for change in changes if isinstance(change, plans.Remove)]
        if len(changes) < 2 or any(self._refusal(opa, put) for put in puts):
            return todo
        if not opa.change_policies({put.item[1]: put.text for put in puts}, removed):
            return todo
        for change in changes:
            self._note_change(change)
        return [operation for operation in todo if operation not in changes]

    def _refusal(self, opa: OpaApi, put: plans.Put) -> Problem | None:
        return refusals.refusal(
            opa, put.item, put.text, system=self._system, replicated=self.replicated
        )

    def _note_change(self, change: plans.Put | plans.Remove) -> None:
        """Record that OPA has loaded or removed a policy."""
        _, id_ = change.item
        if isinstance(change, plans.Put):
            self._served.policies[id_] = change.text
            log.info("loaded policy %s", id_)
        else:
            self._served.policies.pop(id_, None)
            log.info("removed policy %s", id_)
        self._memory.accept(change)

    def _do(self, opa: OpaApi, operation: plans.Operation, desired: Snapshot) -> None:
        if isinstance(operation, plans.Replicate):
            self._replicate(opa, operation)
        elif isinstance(operation, plans.Put):
            self._put(opa, operation)
        else:
            self._remove(opa, operation, desired)

    def _replicate(self, opa: OpaApi, operation: plans.Replicate) -> None:
        """Write a store, in one request if it is small enough and otherwise in pieces. After each
        piece, record what OPA holds.
        """
        name, target, base = operation.name, operation.target, operation.current
        path = self._paths[name]
        if base is None:
            base = target if stores.size(target) <= stores.PIECE else {}
            opa.put_json(path, stores.whole(base))
            log.info("%s: loading %d", name, len(target))
        store = dict(base)
        self._served.stores[name] = store
        for text, changes in stores.pieces(target, base):
            opa.patch_json(path, text)
            for key, changed in changes:
                if changed is None:
                    store.pop(key, None)
                else:
                    store[key] = changed
            log.debug("%s: %d changed", name, len(changes))

    def _put(self, opa: OpaApi, operation: plans.Put) -> None:
        kind, id_ = operation.item
        if reason := self._refusal(opa, operation):
            raise Rejected(id_, reason)
        if kind == "policy":
            opa.put_policy(id_, operation.text)
            self._note_change(operation)
            return
        path = id_.split("/")
        opa.put_json(path, operation.text)
        fingerprint = _fingerprint(opa.document(path))
        self._served.documents[id_] = fingerprint
        self._memory.accept(operation, fingerprint)
        log.info("loaded document %s", id_)

    def _remove(self, opa: OpaApi, operation: plans.Remove, desired: Snapshot) -> None:
        kind, id_ = operation.item
        if kind == "policy":
            opa.remove_policy(id_)
            self._note_change(operation)
            return
        path = id_.split("/")
        last = not any(
            neighbour[0] == kind and neighbour[1].startswith(f"{path[0]}/{path[1]}/")
            for neighbour in (*desired.texts, *desired.broken)
        )
        opa.remove_document(path[:2] if last else path)
        self._served.documents.pop(id_, None)
        self._memory.accept(operation)
        log.info("removed document %s", id_)

    def _note_owned(self, opa: OpaApi) -> None:
        """Update the marker. Call this before items are loaded and after items are removed, so that
        the marker never lacks an item.
        """
        marker = {
            "instance": self._instance,
            "owned": [list(item) for item in sorted(self._memory.owned)],
        }
        if marker != self._written:
            opa.put_document([MARKER], marker)
            self._written = marker

    def _confirm(self, opa: OpaApi, confirmed_at: float) -> None:
        """Write into OPA up to when it holds everything; also again after the clock was set."""
        confirmed = time.time_ns() - int((time.monotonic() - confirmed_at) * 1e9)
        if self.confirmed is None or abs(confirmed - self.confirmed) >= _FINER:
            limit = {} if self._max_staleness is None else {"within": self._max_staleness}
            opa.put_document([CONFIRMED], {"at": confirmed, **limit})
            self.confirmed = confirmed

    def _settle(self, desired: Snapshot, unwritable: Mapping[str, str]) -> None:
        """Report the result of the cycle to the ConfigMaps, /health and /metrics."""
        verdicts: dict[Owner, Verdict] = {}
        pending = []
        for config_map in desired.config_maps:
            problems = plans.problems(config_map, self._served, self._memory)
            if problems is None:
                pending.append("/".join(config_map.owner))
            else:
                verdicts[config_map.owner] = Verdict(config_map.fingerprint, tuple(problems))
                self._log(config_map, problems)
        self._report(verdicts)
        self._verdicts = verdicts
        self.rejected = tuple(
            sorted(
                item[1] for item, text in self._memory.rejected if text == desired.texts.get(item)
            )
        )
        unknown = [*desired.unlisted, *desired.unknown]
        if unknown:
            self.trouble = f"not known from the API server yet: {', '.join(unknown)}"
        elif unwritable:
            self.trouble = "; ".join(unwritable.values())
        else:
            self.trouble = f"not loaded yet: {', '.join(pending)}" if pending else None
        if self.trouble is None:
            self._behind = None
        rejected = sum(1 for verdict in verdicts.values() if verdict.problems)
        self._metrics.holds(
            desired, self._served, rejected, len(pending) + len(unknown) + len(unwritable)
        )

    def _log(self, config_map: ConfigMap, problems: Sequence[Problem]) -> None:
        """Log the problems of a ConfigMap, once."""
        before = self._verdicts.get(config_map.owner)
        if problems and (before is None or list(before.problems) != problems):
            log.warning(
                "%s: %s",
                "/".join(config_map.owner),
                "; ".join(describe(error) for error in problems),
            )

    def _failed(self, error: BaseException) -> None:
        self._compare_at = float("-inf")  # OPA may have carried out a request that failed
        self._behind = self._behind or time.monotonic()
        self._metrics.errors.labels("opa").inc()
        if not isinstance(error, FairleadError):
            log.error("reconciling failed", exc_info=error)
        elif str(error) != self.trouble:
            log.warning("%s", error)
        self.trouble = str(error) or type(error).__name__


def rfc3339(nanoseconds: int) -> str:
    """A time, given in nanoseconds since the epoch, as RFC 3339 text in UTC and whole seconds."""
    return texts.time(datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC))


def _fingerprint(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _owned(marker: Any) -> set[Item]:
    """The items of a marker: those that a sidecar put into this OPA."""
    items: set[Item] = set()
    entries = marker.get("owned") if isinstance(marker, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, list) and len(entry) == 2 and entry[0] in ("policy", "document"):
            items.add((entry[0], str(entry[1])))
    return items

"""Reconciles one OPA with its desired state, whatever happens to it in between."""

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

from fairlead.common.errors import FairleadError
from fairlead.deployment.names import CONFIRMED
from fairlead.kube.resources import Resource
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import Rejected, describe
from fairlead.sync import loops, plans, policy_problems, store
from fairlead.sync.desired import NAMESPACES, ConfigMap, Desired, Item, Owner, Snapshot
from fairlead.sync.metrics import Metrics
from fairlead.sync.policy_problems import Problem
from fairlead.sync.statuses import Verdict
from fairlead.sync.store import Tree

log = logging.getLogger(__name__)

MARKER = "fairlead_sync"
"""The document by which an OPA that lost everything is told from one that did not; no namespace
can have this name."""

_FINER = 1_000_000_000
"""Nanoseconds by which that need not be brought up to date: each write makes OPA prepare its
queries again."""

TICK = 0.5
"""Seconds between two looks at the marker, which costs OPA next to nothing."""

COMPARE = 1.0
"""Seconds between two looks at all that OPA serves; longer where that takes more than a
twentieth of the time."""

SYSTEM = "fairlead/fairlead-policies"
"""The ConfigMap that alone may define the package system, unless told otherwise."""

Report = Callable[[dict[Owner, Verdict]], None]


class Reconciler:
    """Drives one OPA to the desired state; `run` belongs to one thread, the rest is safe for
    others to read.
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
        replicate_path: Sequence[str],
        resources: Sequence[Resource] = (),
        system: str | None = SYSTEM,
    ) -> None:
        """`connect` gives a client with the credentials that hold now; `report` takes what is
        wrong, by ConfigMap.

        `confirmed` tells up to when all is known of the cluster (time.monotonic), None while it is
        not; for how many seconds OPA is Ready with that says `max_staleness`, None for ever.
        `resources` are replicated below `replicate_path`, beside namespaces. `system` is the
        ConfigMap (<namespace>/<configmap>) that may define the package system, None for any.
        """
        self.trouble: str | None = "OPA has not been loaded yet"
        """Why OPA may not hold what it should; None while it does."""
        self.rejected: tuple[str, ...] = ()
        """Policies and documents that OPA declined; what was in force before still is."""
        self.looked = float("-inf")
        """When OPA last answered as it should (time.monotonic)."""
        self.confirmed: int | None = None
        """Up to when OPA is known to hold all that the cluster says, in nanoseconds since the
        epoch."""
        self._known = confirmed
        self._max_staleness = max_staleness
        self._desired = desired
        self._connect = connect
        self._report = report
        self._metrics = metrics
        self._namespaced = {NAMESPACES: False} | {
            resource.name: resource.namespaced for resource in resources
        }
        self._paths = {name: [*replicate_path, name] for name in self._namespaced}
        self._system = system
        self._instance = secrets.token_hex(8)
        self._memory = plans.Memory()
        self._served = plans.Served()
        self._written: dict[str, Any] | None = None
        self._verdicts: dict[Owner, Verdict] = {}
        self._compare_at = float("-inf")
        self._behind: float | None = time.monotonic()

    def run(self, stop: Event, turn: Callable[[], None]) -> None:
        """Reconcile at every change and every tick until `stop` is set; a failure is told and
        tried again.
        """
        loops.repeat(self._step, stop, self._failed, turn=turn, longest=1.0)

    def cycle(self) -> None:
        """Compare, where it is time to, and do what is missing. Raises FairleadError where OPA
        cannot be asked.
        """
        self._behind = self._behind or self._desired.changed_at()
        opa = self._connect()
        known = self._known()  # before what is desired is taken, which may be newer
        desired = self._desired.take()
        self._look(opa, desired)
        self._memory.adopt(desired, self._served)
        unwritable = self._apply(opa, desired)
        # The same object as next time, if nothing changes: so nothing need be compared.
        listed = {name: objects for name, objects in desired.trees.items() if objects is not None}
        self._served.trees |= {
            name: objects for name, objects in listed.items() if name not in unwritable
        }
        if NAMESPACES not in unwritable:
            self._desired.loaded(desired)
        self._note_owned(opa)
        self.looked = time.monotonic()
        self._settle(desired, unwritable)
        if known is not None and self.trouble is None:
            self._confirm(opa, known)

    def _step(self) -> None:
        self.cycle()
        self._desired.changed.wait(TICK)

    def lag(self) -> float:
        """For how many seconds OPA has not held what it should; 0 while it does."""
        since = self._behind or self._desired.changed_at()
        return 0.0 if since is None else time.monotonic() - since

    def _look(self, opa: OpaApi, desired: Snapshot) -> None:
        """Learn what OPA serves: from the marker at every call, in full from time to time."""
        marker = opa.document([MARKER])
        if not isinstance(marker, dict) or marker.get("instance") != self._instance:
            log.info("OPA at %s holds nothing of this process: loading all of it", opa.url)
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
            {name: self._tree(opa, name, desired.trees.get(name)) for name in self._paths},
        )
        if self._written is not None and before != self._served:
            self._memory.generation += 1
            if plans.ours(before, self._memory) != plans.ours(self._served, self._memory):
                log.warning("OPA at %s was changed by someone else: putting it right", opa.url)
        now = time.monotonic()
        self._compare_at = now + max(COMPARE, 20 * (now - began))

    def _fingerprints(self, opa: OpaApi, desired: Snapshot) -> dict[str, str]:
        fingerprints = {}
        for kind, id_ in (*desired.texts, *desired.broken):
            if kind == "document" and id_ in self._memory.fingerprints:
                fingerprints[id_] = _fingerprint(opa.document(id_.split("/")))
        return fingerprints

    def _tree(self, opa: OpaApi, name: str, expected: Tree | None) -> Tree | None:
        """What OPA holds of a tree, which is `wanted` itself where it is the same; None where there
        is none.

        Namespace by namespace: the whole may be far larger than what we can hold at once.
        """
        path, namespaced = self._paths[name], self._namespaced[name]
        parts: Iterator[Any] = iter([opa.document(path)])
        if namespaced:
            keys = opa.keys(path)
            if not keys and not isinstance(opa.document(path), dict):
                return None
            parts = ({key: opa.document([*path, key])} for key in keys)
        held: dict[store.Key, str] = {}
        for part in parts:
            if not isinstance(part, dict):
                return None
            for key, value in store.read(part, namespaced=namespaced):
                text = store.canonical(value)
                known = expected.get(key) if expected else None
                held[key] = known if known is not None and text == known else text
        return expected if expected is not None and held == expected else held

    def _apply(self, opa: OpaApi, desired: Snapshot) -> dict[str, str]:
        """Do all that can be done; returns why trees could not be written, by their name."""
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
            for operation in todo:
                try:
                    self._do(opa, operation, desired)
                except Rejected as error:
                    if isinstance(operation, plans.Replicate):
                        unwritable[operation.name] = f"OPA does not take {operation.name}: {error}"
                        self._compare_at = float("-inf")
                        continue
                    kind, id_ = operation.item
                    reason = (
                        policy_problems.of_answer(id_, error.error)
                        if kind == "document"
                        else error.error
                    )
                    self._memory.reject(operation, reason, time.monotonic())
                    log.debug("OPA declines %s", error)

    def _do(self, opa: OpaApi, operation: plans.Operation, desired: Snapshot) -> None:
        if isinstance(operation, plans.Replicate):
            self._replicate(opa, operation)
        elif isinstance(operation, plans.Put):
            self._put(opa, operation)
        else:
            self._remove(opa, operation, desired)

    def _replicate(self, opa: OpaApi, operation: plans.Replicate) -> None:
        """In one request where OPA takes it, in pieces otherwise; what is there after each is
        remembered.
        """
        name, target, base = operation.name, operation.wanted, operation.held
        path = self._paths[name]
        if base is None:
            base = target if store.size(target) <= store.PIECE else {}
            opa.put_json(path, store.whole(base))
            log.info("%s: loading %d", name, len(target))
        held = dict(base)
        self._served.trees[name] = held
        for text, changes in store.pieces(target, base):
            opa.patch_json(path, text)
            for key, changed in changes:
                if changed is None:
                    held.pop(key, None)
                else:
                    held[key] = changed
            log.debug("%s: %d changed", name, len(changes))

    def _put(self, opa: OpaApi, operation: plans.Put) -> None:
        kind, id_ = operation.item
        if reason := self._forbidden(opa, operation):
            raise Rejected(id_, reason)
        if kind == "policy":
            opa.put_policy(id_, operation.text)
            self._served.policies[id_] = operation.text
            self._memory.accept(operation)
        else:
            path = id_.split("/")
            opa.put_json(path, operation.text)
            held = _fingerprint(opa.document(path))
            self._served.documents[id_] = held
            self._memory.accept(operation, held)
        log.info("loaded %s %s", kind, id_)

    def _forbidden(self, opa: OpaApi, operation: plans.Put) -> Problem | None:
        """What forbids to load a policy or document that OPA might accept."""
        kind, id_ = operation.item
        trees = list(self._paths.values())
        if kind == "document":
            return policy_problems.of_place(id_, trees)
        reason = policy_problems.of_package(id_, operation.text, system=self._system, trees=trees)
        if isinstance(reason, bool):
            return (
                policy_problems.of_rules(id_, operation.text, opa.rules(operation.text), trees)
                if reason
                else None
            )
        return reason

    def _remove(self, opa: OpaApi, operation: plans.Remove, desired: Snapshot) -> None:
        kind, id_ = operation.item
        if kind == "policy":
            opa.remove_policy(id_)
            self._served.policies.pop(id_, None)
        else:
            path = id_.split("/")
            last = not any(
                other[0] == kind and other[1].startswith(f"{path[0]}/{path[1]}/")
                for other in (*desired.texts, *desired.broken)
            )
            opa.remove_document(path[:2] if last else path)
            self._served.documents.pop(id_, None)
        self._memory.accept(operation)
        log.info("removed %s %s", kind, id_)

    def _note_owned(self, opa: OpaApi) -> None:
        """Keep the marker current, before anything is put and after anything is removed."""
        marker = {
            "instance": self._instance,
            "owned": [list(item) for item in sorted(self._memory.owned)],
        }
        if marker != self._written:
            opa.put_document([MARKER], marker)
            self._written = marker

    def _confirm(self, opa: OpaApi, known: float) -> None:
        """Tell OPA up to when it holds everything; again, too, when the clock was set."""
        confirmed = time.time_ns() - int((time.monotonic() - known) * 1e9)
        if self.confirmed is None or abs(confirmed - self.confirmed) >= _FINER:
            within = {} if self._max_staleness is None else {"within": self._max_staleness}
            opa.put_document([CONFIRMED], {"at": confirmed, **within})
            self.confirmed = confirmed

    def _settle(self, desired: Snapshot, unwritable: Mapping[str, str]) -> None:
        """Tell what came of it: to the ConfigMaps, to /health and to /metrics."""
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
        unknown = [*([] if desired.complete else ["ConfigMaps"]), *desired.unknown]
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
        """Say what is wrong with a ConfigMap, once."""
        before = self._verdicts.get(config_map.owner)
        if problems and (before is None or list(before.problems) != problems):
            log.warning(
                "%s: %s",
                "/".join(config_map.owner),
                "; ".join(describe(error) for error in problems),
            )

    def _failed(self, error: BaseException) -> None:
        self._compare_at = float("-inf")  # what OPA was asked for may have been done all the same
        self._behind = self._behind or time.monotonic()
        self._metrics.errors.labels("opa").inc()
        if not isinstance(error, FairleadError):
            log.error("reconciling failed", exc_info=error)
        elif str(error) != self.trouble:
            log.warning("%s", error)
        self.trouble = str(error) or type(error).__name__


def rfc3339(nanoseconds: int) -> str:
    """A time since the epoch as people and JSON have it, in whole seconds of UTC."""
    return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC).isoformat()


def _fingerprint(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _owned(marker: Any) -> set[Item]:
    """What a marker says that a sidecar put into this OPA."""
    items: set[Item] = set()
    entries = marker.get("owned") if isinstance(marker, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, list) and len(entry) == 2 and entry[0] in ("policy", "document"):
            items.add((entry[0], str(entry[1])))
    return items

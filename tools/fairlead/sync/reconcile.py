"""The loop that makes one OPA hold what it should, whatever happens to it in between."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

from fairlead.errors import FairleadError
from fairlead.opa_api import OpaApi, Rejected, describe
from fairlead.sync import loop, plan, problem
from fairlead.sync.desired import Desired, Item, Labels, Owner, Snapshot
from fairlead.sync.metrics import Metrics
from fairlead.sync.problem import Problem

log = logging.getLogger(__name__)

MARKER = "fairlead_sync"
"""The document by which an OPA that lost everything is told from one that did not; no namespace can have this name."""

TICK = 0.5
"""Seconds between two looks at the marker, which costs OPA next to nothing."""

COMPARE = 1.0
"""Seconds between two looks at all that OPA serves; longer where that takes more than a twentieth of the time."""

Report = Callable[[dict[Owner, list[Problem]]], None]


class Reconciler:
    """Drives one OPA to the desired state; `run` belongs to one thread, the rest is safe for others to read."""

    def __init__(
        self,
        desired: Desired,
        connect: Callable[[], OpaApi],
        report: Report,
        metrics: Metrics,
        *,
        replicate_path: Sequence[str],
    ) -> None:
        """`connect` gives a client with the credentials that hold now; `report` takes what is wrong, by ConfigMap."""
        self.trouble: str | None = "OPA has not been loaded yet"
        """Why OPA may not hold what it should; None while it does."""
        self.rejected: tuple[str, ...] = ()
        """Policies and documents that OPA declined; what was in force before still is."""
        self.looked = float("-inf")
        """When OPA last answered as it should (time.monotonic)."""
        self._desired = desired
        self._connect = connect
        self._report = report
        self._metrics = metrics
        self._namespaces = [*replicate_path, "namespaces"]
        self._instance = secrets.token_hex(8)
        self._memory = plan.Memory()
        self._served = plan.Served()
        self._written: dict[str, Any] | None = None
        self._wrong: dict[Owner, list[Problem]] = {}
        self._compare_at = float("-inf")
        self._behind: float | None = time.monotonic()

    def run(self, stop: Event) -> None:
        """Reconcile at every change and every tick until `stop` is set; a failure is told and tried again."""
        loop.repeat(self._step, stop, self._failed, longest=1.0)

    def cycle(self) -> None:
        """Compare, where it is time to, and do what is missing. Raises FairleadError where OPA cannot be asked."""
        self._behind = self._behind or self._desired.changed_at()
        opa = self._connect()
        desired = self._desired.take()
        self._look(opa, desired)
        self._memory.adopt(desired, self._served)
        unwritable = self._apply(opa, desired)
        self._note_owned(opa)
        self.looked = time.monotonic()
        self._settle(desired, unwritable)

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
            self._written = None
            self._behind = self._behind or time.monotonic()
        elif time.monotonic() < self._compare_at:
            return
        began = time.monotonic()
        before = self._served
        self._served = plan.Served(
            opa.policies(), self._fingerprints(opa, desired), _namespaces(opa.document(self._namespaces))
        )
        if self._written is not None and before != self._served:
            self._memory.generation += 1
            if plan.ours(before, self._memory) != plan.ours(self._served, self._memory):
                log.warning("OPA at %s was changed by someone else: putting it right", opa.url)
        now = time.monotonic()
        self._compare_at = now + max(COMPARE, 20 * (now - began))

    def _fingerprints(self, opa: OpaApi, desired: Snapshot) -> dict[str, str]:
        found = {}
        for kind, id_ in (*desired.texts, *desired.kept):
            if kind == "document" and id_ in self._memory.fingerprints:
                found[id_] = _fingerprint(opa.document(id_.split("/")))
        return found

    def _apply(self, opa: OpaApi, desired: Snapshot) -> str | None:
        """Do all that can be done; returns why the namespaces could not be written."""
        unwritable = None
        while True:
            todo = plan.operations(desired, self._served, self._memory, time.monotonic())
            if unwritable:
                todo = [one for one in todo if isinstance(one, plan.Put | plan.Remove)]
            if not todo:
                return unwritable
            self._behind = self._behind or time.monotonic()
            self._memory.owned |= {one.item for one in todo if isinstance(one, plan.Put)}
            self._note_owned(opa)
            for operation in todo:
                try:
                    self._do(opa, operation, desired)
                except Rejected as error:
                    if isinstance(operation, plan.Put | plan.Remove):
                        kind, id_ = operation.item
                        reason = problem.of_answer(id_, error.error) if kind == "document" else error.error
                        self._memory.reject(operation, reason, time.monotonic())
                        log.debug("OPA declines %s", error)
                    else:
                        unwritable = f"OPA does not take the namespaces: {error}"

    def _do(self, opa: OpaApi, operation: plan.Operation, desired: Snapshot) -> None:
        if isinstance(operation, plan.PutNamespaces):
            opa.put_document(
                self._namespaces, {name: thin(name, labels) for name, labels in operation.namespaces.items()}
            )
            self._served.namespaces = dict(operation.namespaces)
            log.info("loaded %d namespaces", len(operation.namespaces))
        elif isinstance(operation, plan.PutNamespace):
            self._do_namespace(opa, operation)
        elif isinstance(operation, plan.Put):
            self._put(opa, operation)
        else:
            self._remove(opa, operation, desired)

    def _do_namespace(self, opa: OpaApi, operation: plan.PutNamespace) -> None:
        path = [*self._namespaces, operation.name]
        held = self._served.namespaces
        assert held is not None  # noqa: S101 - single namespaces are only planned where there are some
        if operation.labels is None:
            opa.remove_document(path)
            held.pop(operation.name, None)
        else:
            opa.put_document(path, thin(operation.name, operation.labels))
            held[operation.name] = operation.labels
        log.debug("namespace %s: %s", operation.name, operation.labels)

    def _put(self, opa: OpaApi, operation: plan.Put) -> None:
        kind, id_ = operation.item
        if kind == "policy":
            if found := problem.of_rules(id_, opa.rules(operation.text)):
                raise Rejected(id_, found)
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

    def _remove(self, opa: OpaApi, operation: plan.Remove, desired: Snapshot) -> None:
        kind, id_ = operation.item
        if kind == "policy":
            opa.remove_policy(id_)
            self._served.policies.pop(id_, None)
        else:
            path = id_.split("/")
            last = not any(
                other[0] == kind and other[1].startswith(f"{path[0]}/{path[1]}/")
                for other in (*desired.texts, *desired.kept)
            )
            opa.remove_document(path[:2] if last else path)
            self._served.documents.pop(id_, None)
        self._memory.accept(operation)
        log.info("removed %s %s", kind, id_)

    def _note_owned(self, opa: OpaApi) -> None:
        """Keep the marker current, before anything is put and after anything is removed."""
        marker = {"instance": self._instance, "owned": [list(item) for item in sorted(self._memory.owned)]}
        if marker != self._written:
            opa.put_document([MARKER], marker)
            self._written = marker

    def _settle(self, desired: Snapshot, unwritable: str | None) -> None:
        """Tell what came of it: to the ConfigMaps, to /health and to /metrics."""
        wrong: dict[Owner, list[Problem]] = {}
        pending = []
        for config_map in desired.config_maps:
            found = plan.problems(config_map, self._served, self._memory)
            if found is None:
                pending.append("/".join(config_map.owner))
            else:
                wrong[config_map.owner] = found
        self._report(wrong)
        for owner, found in wrong.items():
            if found and found != self._wrong.get(owner):
                log.warning("%s: %s", "/".join(owner), "; ".join(describe(one) for one in found))
        self._wrong = wrong
        self.rejected = tuple(
            sorted(item[1] for item, text in self._memory.rejected if text == desired.texts.get(item))
        )
        if not desired.complete or desired.namespaces is None:
            self.trouble = "the cluster's ConfigMaps and namespaces are not known yet"
        else:
            self.trouble = unwritable or (f"not loaded yet: {', '.join(pending)}" if pending else None)
        if self.trouble is None:
            self._behind = None
        self._metrics.holds(desired, self._served, sum(map(bool, wrong.values())))

    def _failed(self, error: BaseException) -> None:
        self._behind = self._behind or time.monotonic()
        self._metrics.errors.labels("opa").inc()
        if not isinstance(error, FairleadError):
            log.error("reconciling failed", exc_info=error)
        elif str(error) != self.trouble:
            log.warning("%s", error)
        self.trouble = str(error) or type(error).__name__


def thin(name: str, labels: Labels) -> dict[str, Any]:
    """A namespace as OPA gets it."""
    return {"metadata": {"name": name, "labels": dict(labels)}}


def _namespaces(document: Any) -> dict[str, Labels | None] | None:
    if not isinstance(document, dict):
        return None
    return {name: _labels(name, value) for name, value in document.items()}


def _labels(name: str, value: Any) -> Labels | None:
    try:
        labels: Labels = value["metadata"]["labels"]
        return labels if value == thin(name, labels) else None
    except (KeyError, TypeError, ValueError):
        return None


def _fingerprint(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _owned(marker: Any) -> set[Item]:
    """What a marker says that a sidecar put into this OPA."""
    found: set[Item] = set()
    entries = marker.get("owned") if isinstance(marker, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, list) and len(entry) == 2 and entry[0] in ("policy", "document"):
            found.add((entry[0], str(entry[1])))
    return found

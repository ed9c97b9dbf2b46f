"""Has OPA decide about each transient binding when that is due, and carries the decision out: a
part of `fairlead controller`.

kopf is not used. Its timers put a finalizer on each object, so that nothing could be revoked while
the controller is away; they sleep by the monotonic clock, so that a clock that is set delays an
end; and it elects a leader by objects of its own kind instead of a Lease.
"""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeGuard

from prometheus_client import CollectorRegistry

from fairlead.access import bindings, granting, state, statuses
from fairlead.access.bindings import Key, Object, goes, kind_of, owner_uid
from fairlead.access.decisions import Decision, Decisions
from fairlead.access.due_work import LOOK, DueWork
from fairlead.access.granting import Granting, NotGranted
from fairlead.access.instants import SECOND
from fairlead.access.metrics import Metrics
from fairlead.access.state import Child, Parent, State
from fairlead.access.trail import Trail, described, former
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import ACCESS, CONTROLLER
from fairlead.keeper.lease import Lease, Lost, Pace
from fairlead.kube.api_requests import BRIEF, MERGE, MOST, SMALL_PAGE, ApiRequests
from fairlead.kube.errors import ApiServerError, TooLarge
from fairlead.sync.opa_credentials import OpaCredentials
from fairlead.sync.watches import Watch

log = logging.getLogger(__name__)

PACE = Pace(duration=8.0, renewed=1.0, margin=2.0)
"""Of the Lease: a controller that takes over from one that was killed does so within 8 s."""
STEP = 0.5
"""Seconds by which the wall clock has to leave the monotonic one to count as set."""
_ASKING, _ENDING = 6, 4  # threads
_AGAIN = 30.0
"""Seconds after which transient bindings that were left out are looked at again."""
_PROBE = (0.2, 0.4)
"""Seconds between two questions whether OPA answers again."""
_STUCK = 2.0
"""Seconds after its end for which a binding may be there before the status tells."""


@dataclass(frozen=True)
class Options:
    """How to reach the API server and OPA. `replica` is the name of this process in the Lease, and
    `recheck` says whether requesters must have the right to bind the role still.
    """

    kubeconfig: Path | None
    opa_url: str
    opa_ca_file: Path | None
    opa_auth_token_file: Path | None
    recheck: bool
    replica: str


class Controller:
    """Carries out the decisions about transient bindings. Of several replicas, the one that holds
    the Lease does so; the others watch, and are ready to take over.

    Two queues keep what must not wait for OPA apart from what has to: `ends` takes bindings
    away by the time that is written into them, `asks` has OPA decide.
    """

    name = "access"

    def __init__(self, options: Options, registry: CollectorRegistry) -> None:
        """Sends nothing yet. Raises UsageError for an unusable kubeconfig or address."""
        self._api = ApiRequests(options.kubeconfig, timeout=BRIEF, page=SMALL_PAGE, most=MOST)
        self._lease = Lease(self._api, options.replica, name=CONTROLLER, pace=PACE, restored=True)
        self._leading = Event()
        self._decisions = Decisions(
            lambda: OpaCredentials(
                options.opa_url, options.opa_ca_file, options.opa_auth_token_file
            )
        )
        self._granting = Granting(self._api, recheck=options.recheck, check=self._lease.check)
        self._trail = Trail(self._api)
        self._asks = DueWork("asking about", self._ask, threads=_ASKING, longest=2.0)
        self._ends = DueWork("ending", self._end, threads=_ENDING, longest=0.5)
        self._state = State(self._look)
        self._metrics = Metrics(registry, self._state, self._leading)
        self._watches = [
            Watch(self._api, source, self._state.selector(source), self._state, self._metrics)
            for source in self._state.sources
        ]
        self._election: str | None = None
        self._there: dict[Key, Child] = {}
        self._again = Event()
        OpaCredentials(options.opa_url, None, None)  # refuses what is not an address

    def run(self, stop: Event) -> None:
        """Work until `stop` is set; then let another controller take over at once."""
        threads = [
            Thread(target=watch.run, args=(stop, _nothing), name=str(watch.source), daemon=True)
            for watch in self._watches
        ]
        telling = Thread(target=self._trail.run, args=(stop,), name="trail", daemon=True)
        threads += [
            Thread(target=self._watch_clock, args=(stop,), name="clock", daemon=True),
            Thread(target=self._watch_opa, args=(stop,), name="opa", daemon=True),
            Thread(target=self._look_again, args=(stop,), name="again", daemon=True),
            telling,
        ]
        for thread in threads:
            thread.start()
        working = [*self._asks.run(stop), *self._ends.run(stop)]
        self._elect(stop)
        for thread in (*working, telling):
            thread.join(timeout=5.0)

    def health(self) -> dict[str, Any]:
        """{"leading", "bindings", "reasons"}: whether it leads, how many bindings there are by its
        decisions, and why it cannot do all of its work.
        """
        troubles = [watch.trouble for watch in self._watches]
        troubles += [self._decisions.trouble, self._election, self._ends.trouble]
        return {
            "leading": self._leading.is_set(),
            "bindings": self._state.count(parents=False),
            "reasons": list(filter(None, troubles)),
        }

    def _look(self, key: Key) -> None:
        """Have everything about this parent and its binding looked at now."""
        self._ends.put(key)
        self._asks.put(key)

    def _look_at_all(self) -> None:
        for key in self._state.known():
            self._look(key)

    def _elect(self, stop: Event) -> None:
        pause = 0.0
        while not stop.wait(pause):
            if not self._state.complete:
                pause = 0.05
                continue
            try:
                with self._lease.attempt() as leading:
                    self._election = None
                    if leading:
                        self._lead(stop)
                pause = random.uniform(0.4, 0.6)  # noqa: S311 - spreads requests, keeps no secret
            except ApiServerError as error:
                if str(error) != self._election:
                    log.warning("the Lease %s cannot be taken: %s", CONTROLLER, error)
                self._election, pause = str(error), random.uniform(0.1, 0.3)  # noqa: S311 - the same

    def _lead(self, stop: Event) -> None:
        log.info("leading")
        self._there.clear()  # another controller may have told meanwhile
        self._leading.set()
        marking = Thread(target=self._mark, args=(stop,), name="marking", daemon=True)
        marking.start()
        try:
            self._look_at_all()
            while not stop.wait(0.1):
                self._lease.check()
        except Lost as error:
            log.warning("%s", error)
        finally:
            self._leading.clear()

    def _watch_clock(self, stop: Event) -> None:
        """Look at everything after the clock was set: what is due has changed."""
        apart = time.time_ns() - time.monotonic_ns()
        while not stop.wait(LOOK):
            now = time.time_ns() - time.monotonic_ns()
            if abs(now - apart) > STEP * SECOND:
                log.warning("the clock was set by %+.1f s", (now - apart) / SECOND)
                self._look_at_all()
                self._again.set()
            apart = now

    def _mark(self, stop: Event) -> None:
        """Have own bindings found that another version made."""
        while not stop.is_set() and self._leading.is_set():
            try:
                self._granting.mark()
                return
            except FairleadError as error:
                log.warning("bindings cannot be looked through: %s", error)
                stop.wait(_AGAIN)

    def _look_again(self, stop: Event) -> None:
        """Read all transient bindings again while some are left out, and after the clock was set:
        those that had ended by it may not have.
        """
        while not stop.is_set():
            self._again.wait(_AGAIN)
            if not (self._again.is_set() or self._state.crowded):
                continue
            self._again.clear()
            self._state.crowded = False
            try:
                for source, kind in zip(self._state.parents, bindings.KINDS, strict=True):
                    for value in self._api.collection(kind.parents.path, {}):
                        self._state.apply(source, False, value)
            except ApiServerError as error:
                log.warning("what is left out cannot be read: %s", error)
                self._state.crowded = True

    def _watch_opa(self, stop: Event) -> None:
        """Look for OPA while it does not answer, and have it decide all that waits once it does.
        Otherwise each binding would be tried again by itself, as much as 2 s later.
        """
        away = False
        while not stop.wait(random.uniform(*_PROBE)):  # noqa: S311 - spreads requests
            if self._decisions.trouble:
                away = True
                self._asks.hurry(1)
            elif away:
                away = False
                self._asks.hurry()

    def _end(self, key: Key) -> int | None:
        """Take away a binding whose end has come, or whose parent is gone."""
        child, parent = self._state.child(key), self._state.parent(key)
        if not self._leading.is_set():
            return None
        if child is None:
            self._tell_revoked(key, parent)
            return None
        self._there[key] = child
        # The watch of the parents may be behind, or the parent is left out.
        if not _owns(parent, child) and not self._granting.has(key, child.owner):
            self._take(key, child, "its deletion")
            self._tell_revoked(key, None)  # unless it was taken just now
            return None
        end = bindings.end(child.end, parent.end if _owns(parent, child) else None)
        if time.time_ns() < end:
            return end
        self._take(key, child, "its end")
        self._there.pop(key, None)  # if it was gone, another controller has told
        self._metrics.late((time.time_ns() - end) / SECOND)
        return None

    def _ask(self, key: Key) -> int | None:
        """Have OPA decide about a parent, carry that out, and write the status."""
        if not self._leading.is_set():
            return None
        known, left_out = self._state.parent(key), self._state.take_left_out(key)
        if not left_out and (known is None or known.goes):
            return None  # `_end` takes care of the child
        try:
            parent = self._granting.parent(key)
        except TooLarge:
            if known is not None:
                self._refuse(key, former(key, known.uid), _too_large())
            return None
        if parent is None or goes(parent):
            if parent is None and known:
                self._state.forget(key, known.uid, parents=True)
            return None
        if known is None:
            self._refuse(key, parent, _too_many(key))
            return None
        pending = known.begin is not None and time.time_ns() < known.begin
        is_there = not pending or self._state.child(key) is not None
        return self._decide(key, parent, self._granting.child(key) if is_there else None)

    def _decide(self, key: Key, parent: Object, child: Object | None) -> int | None:
        now, spec = time.time_ns(), parent["spec"]
        if child is not None and owner_uid(child) != parent["metadata"]["uid"]:
            return now + SECOND  # the one before of the same name goes
        begin, end = bindings.instant(spec["validFrom"]), bindings.instant(spec["validUntil"])
        if end is not None and end <= now:
            return self._tell_end(key, parent, child, end)
        decision = self._decisions.of(parent, child)
        if decision.binding and child is None and now < (begin or 0):
            return begin  # OPA's clock is ahead
        trouble: NotGranted | None = None
        try:
            if self._carry_out(key, parent, child, decision):
                return now + SECOND  # the watch tells of the change before
        except NotGranted as error:
            trouble = error
        conditions = statuses.of(parent, decision.conditions, trouble)
        if trouble and bindings.condition(parent, bindings.FAILED).get("reason") != trouble.reason:
            self._trail.tell("Warning", trouble.reason, f"{trouble}; {described(parent)}", parent)
        self._write(key, parent, conditions)
        if decision.seconds <= 0:
            return None
        part = random.uniform(0.5, 1.0) if trouble else 1.0  # noqa: S311 - spreads requests
        next_time = now + max(int(decision.seconds * part * SECOND), SECOND // 1000)
        # OPA counts from when it decides, a moment later. To ask that moment early is in vain.
        return begin if begin and next_time < begin < next_time + SECOND else next_time

    def _refuse(self, key: Key, parent: Object, trouble: NotGranted) -> None:
        """Say in the status of a transient binding that it is not decided about. What is there of
        it stays until its end.
        """
        if self._state.child(key) is None:
            self._write(key, parent, statuses.refused(parent, trouble))

    def _carry_out(
        self, key: Key, parent: Object, child: Object | None, decision: Decision
    ) -> bool:
        """Make the binding what was decided; False if it is that already. Raises NotGranted,
        ApiServerError.
        """
        if decision.binding is None:
            if child is not None:
                self._take(key, state.child(child), "a decision")
            return child is not None
        desired = bindings.made(decision.binding, parent)
        self._ends.put(key, bindings.end(bindings.until(desired)))
        if child is None:
            created = self._granting.make(key, parent, desired)
            if created is not None:
                self._state.observe(key, created)  # its end must not wait for a watch that hangs
                self._tell_made(parent)
            return True
        if bindings.is_as_made(child, desired):
            return False
        self._granting.put_right(key, child, desired)
        if bindings.TRANSIENT in child["metadata"].get("labels", {}):  # otherwise see `mark`
            self._trail.tell("Warning", "Repaired", "the binding was changed by hand", parent)
        return True

    def _tell_end(self, key: Key, parent: Object, child: Object | None, end: int) -> int | None:
        """Write the status after the end, which needs no OPA unless `_end` cannot take the binding
        away.
        """
        if child is None:
            self._write(key, parent, statuses.expired(parent))
            return None
        now, deadline = time.time_ns(), end + int(_STUCK * SECOND)
        if now < deadline:
            return deadline
        decided = self._decisions.of(parent, child).conditions
        self._write(key, parent, statuses.of(parent, decided, None))
        return now + 10 * SECOND  # the watch tells when the binding is gone

    def _tell_made(self, parent: Object) -> None:
        if bindings.condition(parent, bindings.EFFECTIVE).get("status") == "True":
            self._trail.tell("Warning", "Repaired", "the binding was deleted by hand", parent)
            return
        self._metrics.granted()
        self._trail.tell("Normal", "Granted", described(parent), parent)

    def _take(self, key: Key, child: Child, reason: str) -> None:
        removed = self._granting.take(key, child.uid)
        self._state.forget(key, child.uid)
        if removed:
            self._there.pop(key, None)
            self._metrics.ended()
            about = former(key, child.owner)
            self._trail.tell("Normal", "Ended", f"{child.loss} by {reason}", about)

    def _tell_revoked(self, key: Key, parent: Parent | None) -> None:
        """Tell of a binding that the cluster deleted with its parent, before anyone here did."""
        child = self._there.pop(key, None)
        if child and (parent is None or parent.goes):
            self._metrics.ended()
            about = former(key, child.owner)
            self._trail.tell("Normal", "Ended", f"{child.loss} by its deletion", about)

    def _write(self, key: Key, parent: Object, conditions: list[bindings.Condition]) -> None:
        """Write the conditions if they differ from those that are known."""
        if (parent.get("status") or {}).get("conditions") == conditions:
            return
        path = bindings.path(kind_of(key).parents, *key, "status")
        patch = {
            "metadata": {"uid": parent["metadata"]["uid"]},
            "status": {"conditions": conditions},
        }
        try:
            self._api.send("PATCH", path, patch, manager=ACCESS, content_type=MERGE)
        except ApiServerError as error:
            if error.status not in (404, 409, 422):  # it is gone, or another one has its name
                raise


def _owns(parent: Parent | None, child: Child) -> TypeGuard[Parent]:
    """Whether the binding comes of this parent, which stays."""
    return parent is not None and not parent.goes and parent.uid == child.owner


def _too_many(key: Key) -> NotGranted:
    place = f"namespace {key[0]}" if key[0] else "the whole cluster"
    return NotGranted(
        bindings.TOO_MANY,
        f"{state.OF_NAMESPACE:,} transient bindings of {place}, or {state.OF_ALL:,} of all "
        "namespaces, have not ended: this one waits until others have, or are deleted",
    )


def _too_large() -> NotGranted:
    return NotGranted(
        bindings.TOO_LARGE,
        f"it has more than {granting.LARGEST // 1024} KiB with its labels and annotations: create "
        "it again with less of these, and name groups in the place of many subjects",
    )


def _nothing() -> None:
    """Each thread ends by itself; none can hang without a deadline."""

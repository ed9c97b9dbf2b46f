"""Brings into force what the objects Fairlead and Policy say: a part of `fairlead controller`.

The cluster's settings are the object Fairlead, and its policies the project's and the Policies. As
long as there is no Fairlead, nothing happens here. A change is checked, brought to every OPA and,
last, to the webhooks, by the same operation as `fairlead push`: if it fails at any step, what was
in force before stays so, and the objects' status says why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Logged
from fairlead.controller import decided, objects_watch, reports, statuses
from fairlead.controller.inside import InsideCluster
from fairlead.controller.statuses import Outcome
from fairlead.deployment.controller import CHECKED
from fairlead.deployment.names import CONTROLLER, LIFECYCLE_LEASE, NAMESPACE, OPA
from fairlead.keeper.lease import Lease
from fairlead.kube import clients
from fairlead.kube.own_kinds import NAME, VERSION
from fairlead.opa import cli
from fairlead.operations import deployed_state, object_following, push, rollback
from fairlead.policy import bundles, parameter_rules, policy_objects
from fairlead.policy.policy_objects import (
    FAIRLEAD,
    POLICY,
    PolicyObjects,
    WrongObjects,
)

log = logging.getLogger(__name__)

RESYNC = 30.0
"""Seconds after which the objects are read again though nothing said that they changed."""
AGAIN, _LONGEST = 5.0, 60.0
"""The pause before another look while another replica is at work, in seconds, and the longest
before a change is tried again that failed: it doubles each time."""
DECISIONS = 20.0
"""Seconds that pass at the least between two writes of what was decided: an API server cannot take
one for each decision."""
_WITHIN = 300.0
"""Seconds for the programs that check a change."""
_STEP = 0.5
"""Seconds within which the end of the process is noticed."""


@dataclass(frozen=True)
class _State:
    """The objects as they were read; `key` is other once one of them, or what is in force, is."""

    fairlead: Mapping[str, Any] | None
    policies: Sequence[Mapping[str, Any]]
    deployed: Mapping[str, Any]
    servers: int = 0
    """The generation of OPA's Deployment, which has to be as the settings say."""

    @property
    def objects(self) -> str:
        """Identifies what the objects say."""
        return policy_objects.fingerprint(filter(None, [self.fairlead, *self.policies]))

    @property
    def is_reported(self) -> bool:
        """Whether a controller has said what becomes of these objects, and nothing else is in
        force since.
        """
        status = (self.fairlead or {}).get("status") or {}
        revision = bundles.revision(self.deployed.get("data") or {})
        return (status.get("objects"), status.get("revision")) == (self.objects, revision)

    @property
    def key(self) -> tuple[Any, ...]:
        """Another one if the objects say something else, or something else is in force."""
        return self.objects, self.deployed.get("data"), self.servers


class Lifecycle:
    """Of several replicas, one at a time changes something."""

    name = "lifecycle"

    def __init__(
        self, kubeconfig: Path | None, inside: Callable[[], InsideCluster], *, replica: str
    ) -> None:
        """`inside` gives the cluster anew, and `replica` is the name of this one. Raises
        UsageError.
        """
        self._kubeconfig = kubeconfig
        self._inside = inside
        self._objects = clients.Objects(kubeconfig, field_manager=CONTROLLER)
        self._lease = Lease(self._objects, replica, name=LIFECYCLE_LEASE, restored=True)
        self._changed = Event()
        self._failures = 0
        self._settled: tuple[Any, ...] | None = None
        self._trouble: str | None = None
        self._last_message = ""
        self._told = float("-inf")

    def run(self, stop: Event) -> None:
        """Follow the objects until `stop` is set."""
        watch = objects_watch.start(self._kubeconfig, self._changed.set, stop)
        while not stop.is_set():
            self._changed.clear()
            try:
                done = self.look()
                self._failures, self._trouble = 0 if done else self._failures, None
                again = min(AGAIN * 2 ** max(0, min(self._failures - 1, 10)), _LONGEST)
                pause = RESYNC if done else again
            except Exception as error:
                if str(error) != self._trouble:
                    log.warning("the objects %s and %s: %s", FAIRLEAD, POLICY, error)
                self._trouble, pause = str(error) or type(error).__name__, AGAIN
                self._objects.renew()
            if not watch.is_alive():
                watch = objects_watch.start(self._kubeconfig, self._changed.set, stop)
            self._wait(pause, stop)

    def _wait(self, pause: float, stop: Event) -> None:
        """Return when something changed, after the pause, or when `stop` is set."""
        ends = time.monotonic() + pause
        while not stop.is_set() and time.monotonic() < ends:
            if self._changed.wait(_STEP):
                return

    def health(self) -> dict[str, Any]:
        """{"reasons"}: why the objects cannot be followed. Mistakes in them are in their status."""
        return {"reasons": [self._trouble] if self._trouble else []}

    def look(self) -> bool:
        """Bring into force what the objects say. Returns False if it has to be tried again. Raises
        ApiServerError.
        """
        state = self._read()
        if state.fairlead is None:
            return True
        if state.key == self._settled:
            self._tell_decisions(state)
            return True
        if self._settled and self._settled[-1] == state.servers and state.is_reported:
            # By another replica.
            self._settled = state.key
            return True
        with self._lease.attempt() as leading:
            if not leading:
                return False
            state = self._read()
            if state.fairlead is None:
                return True
            with cli.limits(seconds=_WITHIN, memory=CHECKED):
                outcome = self._brought(state.fairlead, state.policies)
            self._tell(state, state.fairlead, outcome)
        if not outcome.is_final:
            self._failures += 1
            return False
        # A mistake stays one until an object changes.
        self._settled = replace(state, deployed=self._deployed()).key
        return True

    def _read(self) -> _State:
        fairlead = self._objects.get(VERSION, FAIRLEAD, NAME)
        if fairlead is None:
            return _State(None, (), {})
        policies = self._objects.list(VERSION, POLICY, None)
        deployment = self._objects.get("apps/v1", "Deployment", OPA, NAMESPACE)
        servers = deployment["metadata"]["generation"] if deployment else 0
        return _State(fairlead, policies, self._deployed(), servers)

    def _deployed(self) -> Mapping[str, Any]:
        return deployed_state.config_map(self._objects) or {}

    def _brought(
        self, fairlead: Mapping[str, Any], policies: Sequence[Mapping[str, Any]]
    ) -> Outcome:
        """Bring the policies of these objects, or the pinned revision, into force, unless they
        are.
        """
        progress, cluster = Logged(log), self._inside()
        message, pinned = object_following.message_of(fairlead), policy_objects.pinned(fairlead)
        try:
            if pinned:
                result = rollback.by_controller(cluster, pinned, message=message, progress=progress)
            else:
                objects = PolicyObjects.read(fairlead, policies)
                policy_set = objects.policy_set(parameter_rules.rules(progress))
                with objects.explained():
                    result = push.by_controller(
                        cluster, policy_set, message=message, progress=progress
                    )
        except WrongObjects as error:
            return Outcome(error=str(error), faults=error.faults)
        except UsageError as error:
            return Outcome(error=str(error), faults={(FAIRLEAD, NAME): [str(error)]})
        except FairleadError as error:
            return Outcome(error=str(error))
        served = [opa["revision"] for opa in result["opa"]]
        installed = f"{served.count(result['revision'])}/{len(served)}"
        how_it_ends = object_following.UNPIN if pinned else ""
        return Outcome(result["revision"], installed, pinned=how_it_ends)

    def _tell_decisions(self, state: _State) -> None:
        """Write what OPAs decided by each Policy. Raises ApiServerError."""
        now = time.monotonic()
        if now - self._told < DECISIONS:
            return
        self._told = now
        with self._lease.attempt() as leading:
            credentials = deployed_state.credentials(self._objects) if leading else None
            if credentials is None:
                return
            decisions = decided.reports(self._inside().sidecars(), credentials.token)
            for value in state.policies:
                intents = [value["metadata"]["name"], *(value["spec"].get("instances") or ())]
                status = decided.patch(value.get("status") or {}, intents, decisions)
                if status is not None:
                    self._objects.merge_status(value, status)

    def _tell(self, state: _State, fairlead: Mapping[str, Any], outcome: Outcome) -> None:
        """Write the status of each object, and an Event. Raises ApiServerError if a status cannot
        be written.
        """
        # The object with the settings comes last: it says that the others have been written.
        for value in (*state.policies, fairlead):
            status = statuses.of(value, outcome)
            if value is fairlead and outcome.is_final:
                status = {**(status or {}), "objects": state.objects}
            if status is not None:
                self._objects.merge_status(value, status)
        message = outcome.message
        if message == self._last_message:
            return
        self._last_message = message
        if outcome.error:
            reports.write(self._objects, fairlead, "Warning", "NotInForce", message)
        else:
            reports.write(self._objects, fairlead, "Normal", "InForce", message)

"""Waits until every OPA serves a revision of the policies, or until OPA refuses it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from fairlead.clusters.base import Cluster, OpaServer
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE, OPA_ENGINE, POLICIES, PYTHON_ENGINE, RETRIES
from fairlead.kube import clients
from fairlead.opa.errors import OpaRefused
from fairlead.operations import deployed_state, leftovers, policy_status
from fairlead.operations.deployed_state import Served
from fairlead.policy import bundles
from fairlead.policy.revision import MAIN, fingerprint, switches

_DEADLINE = 180.0
"""Seconds within which every OPA serves a revision. It takes three, and many more where OPA gets
little of a processor: kube-mgmt has it compile all policies for each that it loads."""
_STUCK = 15.0
"""Seconds for which another policy may hold on to a module that has to go."""
_UNLOADED = 10.0
"""Seconds in which a sidecar that unloads old modules has to do it, before it is done here."""
_LOOK = 1.0
"""Seconds between two looks into an OPA whose sidecar has not reported yet. A look makes OPA send
all that it has loaded, while it is busy loading."""
_UNSETTLED = 10.0
"""Seconds after which an error counts although kube-mgmt has retries left."""


class RevisionRejected(FairleadError):
    """OPA does not take the policies; what it served before stays in force."""


def until_in_force(
    cluster: Cluster,
    objects: clients.Objects,
    token: str,
    modules: Mapping[str, str],
    *,
    progress: Progress,
    deadline: float = _DEADLINE,
    stale: str | None = None,
) -> list[Served]:
    """Return when every OPA of the cluster is ready and serves `modules`, the data of the policies'
    ConfigMap.

    If the token is replaced meanwhile, the new one is used. Raises RevisionRejected as soon as a
    sidecar says that its OPA does not take the policies, leftovers.Stuck if an OPA keeps a module
    that is not in `modules`, and FairleadError after `deadline` seconds. kube-mgmt's status does
    not say which content it is about: `stale` is the annotation from before, which says nothing
    about this revision.
    """
    wait = _Wait(cluster, objects, token, modules, stale)
    revision, server = wait.revision, wait.server
    progress.update("policies", f"waiting until every {server} serves {revision}")
    try:
        states = waiting.until(
            wait.check, deadline=deadline, what=f"every {server} serves revision {revision}"
        )
    except _Ended as ended:
        raise ended.error from None
    except FairleadError as error:
        if isinstance(error.__cause__, leftovers.Stuck):
            raise leftovers.Stuck(str(error.__cause__)) from error
        raise
    progress.finish("policies", f"revision {revision} in force")
    return states


class _Ended(Exception):
    """Ends the wait with `error`. It is not a FairleadError, after which the wait would go on."""

    def __init__(self, error: FairleadError) -> None:
        super().__init__(str(error))
        self.error = error


class _Wait:
    """The wait for one revision: what was seen and done so far."""

    def __init__(
        self,
        cluster: Cluster,
        objects: clients.Objects,
        token: str,
        modules: Mapping[str, str],
        stale: str | None,
    ) -> None:
        self.revision = bundles.revision(modules)
        self.server = "OPA" if cluster.sidecar.engine == OPA_ENGINE else "server"
        self._cluster = cluster
        self._objects = objects
        self._token = token
        self._modules = modules
        self._stale = stale
        # The kube-mgmts of pods that end give each other new retries for as long as they last.
        self._unsettled_until = time.monotonic() + _UNSETTLED
        self._switched_at: float | None = None
        self._stuck_at: float | None = None
        self._looked_at = float("-inf")
        # How often kube-mgmt refused, with nothing left in OPA that may be the cause.
        self._refusals = 0

    def check(self) -> list[Served] | None:
        """The state of every OPA if all serve the revision, else None. Raises FairleadError if it
        may still come, and _Ended if not.
        """
        try:
            return self._look()
        except OpaRefused:
            if fresh := deployed_state.credentials(self._objects):
                self._token = fresh.token
            raise
        except leftovers.Stuck as error:
            self._stuck_at = self._stuck_at or time.monotonic()
            if time.monotonic() > self._stuck_at + _STUCK:
                raise _Ended(error) from None
            raise

    def _rejected(self, reason: str) -> _Ended:
        return _Ended(RevisionRejected(f"{self.server} rejects revision {self.revision}: {reason}"))

    def _look(self) -> list[Served] | None:
        config_map = self._objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
        if config_map is None:  # nothing puts it back while a change is at work
            raise _Ended(FairleadError(f"somebody deleted the ConfigMap {POLICIES} meanwhile"))
        opas = self._cluster.opas()
        if self._cluster.sidecar.engine == PYTHON_ENGINE:
            return self._in_force(opas)
        current = config_map.get("data") == dict(self._modules)  # nobody else is pushing
        if self._cluster.sidecars():
            if not self._reported(config_map) and time.monotonic() < self._looked_at + _LOOK:
                return None
            self._looked_at = time.monotonic()
        elif self._kube_mgmt_has_to_retry(config_map, opas, current):
            return None
        if not all(self._switched(opa) for opa in opas):
            return None
        self._switched_at = self._switched_at or time.monotonic()
        sidecar_had_time = time.monotonic() > self._switched_at + _UNLOADED
        if current and (not self._cluster.sidecar.unloads or sidecar_had_time):
            for opa in opas:
                leftovers.remove(opa, self._token, self._modules)
        return self._in_force(opas)

    def _in_force(self, opas: Sequence[OpaServer]) -> list[Served] | None:
        states = [deployed_state.served(opa, self._token) for opa in opas]
        for state in states:
            if state.rejected and state.rejected["revision"] == self.revision:
                raise self._rejected(state.rejected["error"])
        in_force = all(state.ready and state.revision == self.revision for state in states)
        return states if states and in_force else None

    def _reported(self, config_map: dict[str, Any]) -> bool:
        """Whether each replica of `fairlead sync` reports that its OPA has taken this content.
        Raises _Ended if one reports that its OPA does not.
        """
        about = fingerprint(self._modules)
        reports = [
            report for report in policy_status.replicas(config_map) if report.get("of") == about
        ]
        for report in reports:
            if report.get("status") == "error":
                raise self._rejected(policy_status.line(report.get("error")))
        return len(reports) >= len(self._cluster.sidecars())

    def _kube_mgmt_has_to_retry(
        self, config_map: dict[str, Any], opas: Sequence[OpaServer], current: bool
    ) -> bool:
        """Whether kube-mgmt reports an error that a retry may mend. If its status is final, it is
        told to try again.

        Every kube-mgmt writes the one annotation, also those whose pods end. So what OPA itself
        says counts more. Raises _Ended if kube-mgmt goes on to report the error.
        """
        if policy_status.read_annotation(config_map) == self._stale:
            return False
        status = policy_status.status(config_map)
        final = status["status"] == "error"
        if not final and not (status["error"] and time.monotonic() > self._unsettled_until):
            return False
        if status["error"] == policy_status.UNREACHED:
            if final:
                self._try_again()
            return True
        if all(deployed_state.served(opa, self._token).revision == self.revision for opa in opas):
            return False
        # What OPA keeps may be why it refuses the rest, such as a file under its old name.
        removed = (
            current
            and sum(leftovers.remove(opa, self._token, self._modules, staged=False) for opa in opas)
            > 0
        )
        self._refusals += final and not removed
        if final and (self._refusals >= max(2, len(opas)) or not current):
            raise self._rejected(status["error"])
        if final or removed:
            self._try_again()
        return True

    def _try_again(self) -> None:
        """Have kube-mgmt load the policies once more, which it does at any change while it has
        retries left.
        """
        metadata = {"name": POLICIES, "namespace": NAMESPACE}
        policies = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        self._objects.merge(policies, {"metadata": {"annotations": {RETRIES: "1"}}})

    def _switched(self, opa: OpaServer) -> bool:
        """Whether the OPA serves this main.rego, and whatever else switches to the revision. They
        are loaded last, and cost little to compare repeatedly.
        """
        keys = {MAIN, *(key for key, text in self._modules.items() if switches(key, text))}
        with closing(opa.api(self._token)) as api:
            return all(
                api.policy(f"{NAMESPACE}/{POLICIES}/{key}") == self._modules.get(key)
                for key in sorted(keys)
            )

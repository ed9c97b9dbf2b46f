"""Injects faults into a cluster, and repairs those that the cluster does not repair itself. There
is a subclass for each kind of cluster."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from kubernetes import client

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import CONTROLLER, LIFECYCLE_LEASE, NAMESPACE, POLICIES
from fairlead.kube import api_requests, clients
from lab.chaos.schedule import BREAK, COMPACT, DELETE, LOSE, Episode, Fault

INVALID = "package system\n\nmain := {  # broken on purpose\n"
_GUARD = "fairlead-pool-label"
_PATIENCE = 60.0
"""Seconds within which a fault must succeed. Another fault may have stopped the API server."""


@dataclass(frozen=True)
class Broke:
    """A fault that was injected, in the episode with the number `episode`, from `began` to `ended`
    (time.monotonic).
    """

    kind: str
    target: str
    episode: int
    began: float
    ended: float


class Faults:
    """Carries out a schedule. `broke` has the faults that were injected, `failed` the errors of the
    others.
    """

    def __init__(self, kubeconfig: Path, progress: Progress) -> None:
        self.broke: list[Broke] = []
        self.failed: list[str] = []
        self._progress = progress
        self._kubeconfig = kubeconfig
        self._core = client.CoreV1Api(clients.connect(kubeconfig))

    def run(self, episodes: Sequence[Episode], stop: Event) -> None:
        """Carry out the episodes, each at its time from now on. Returns when all faults are over,
        or when `stop` is set; then everything is repaired at once.
        """
        start = time.monotonic()
        with ThreadPoolExecutor(8) as several:
            for number, episode in enumerate(episodes):
                if stop.wait(max(0.0, start + episode.at - time.monotonic())):
                    break
                kinds = ", ".join(fault.kind for fault in episode.faults)
                self._progress.update("faults", kinds, done=number, total=len(episodes))
                running: list[Future[None]] = [
                    several.submit(self._carry_out, fault, number, stop) for fault in episode.faults
                ]
                for future in running:
                    future.result()

    def _carry_out(self, fault: Fault, episode: int, stop: Event) -> None:
        stop.wait(fault.after)
        actions = {
            COMPACT: self._compact,
            DELETE: self._delete_leases,
            LOSE: self._delete_policies,
            BREAK: self._break,
        }
        action = actions.get(fault.kind, self._signal)

        def begin() -> tuple[float, tuple[str, Callable[[], None]]]:
            return time.monotonic(), action(fault)

        try:
            began, (target, mend) = waiting.until(begin, deadline=_PATIENCE, what=fault.kind)
            try:
                stop.wait(fault.lasts)
            finally:
                mend()
        except (FairleadError, OSError) as error:
            self.failed.append(f"{fault.kind}: {error}")
        else:
            self.broke.append(Broke(fault.kind, target, episode, began, time.monotonic()))

    def _signal(self, fault: Fault) -> tuple[str, Callable[[], None]]:
        """Kill or stop servers. Returns their names and a function that repairs the fault. Raises
        FairleadError if none of them runs.
        """
        raise NotImplementedError

    def _compact(self, _fault: Fault) -> tuple[str, Callable[[], None]]:
        """Delete all history of etcd, so that watches from an old resourceVersion get 410 Gone."""
        revision = int(self._etcd("range", {"key": b64encode(b"x").decode()})["header"]["revision"])
        self._etcd("compaction", {"revision": revision, "physical": True})
        return "etcd", lambda: None

    def _delete_leases(self, _fault: Fault) -> tuple[str, Callable[[], None]]:
        """Delete the Leases by which controllers know which of them works."""
        objects = clients.Objects(self._kubeconfig)
        for name in (CONTROLLER, LIFECYCLE_LEASE):
            objects.delete("coordination.k8s.io/v1", "Lease", name, NAMESPACE)
        return f"{CONTROLLER}, {LIFECYCLE_LEASE}", lambda: None

    def _delete_policies(self, _fault: Fault) -> tuple[str, Callable[[], None]]:
        """Delete the policies' ConfigMap and a guard, which the controller puts back."""
        objects = clients.Objects(self._kubeconfig)
        objects.delete("v1", "ConfigMap", POLICIES, NAMESPACE)
        objects.delete(
            "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", _GUARD
        )
        return f"{POLICIES}, {_GUARD}", lambda: None

    def _etcd(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request to etcd's gRPC gateway below /v3/kv (etcd documentation, "gRPC gateway").
        Raises FairleadError if etcd does not answer.
        """
        raise NotImplementedError

    def _break(self, fault: Fault) -> tuple[str, Callable[[], None]]:
        """Write invalid Rego into the policies' ConfigMap, as somebody might who edits it by
        hand.
        """
        good = self._policies()
        before = dict(good.data or {})
        keys = sorted(before)
        key = (
            "main.rego"
            if fault.pick is None
            else [*keys, "added.rego"][fault.pick % (len(keys) + 1)]
        )
        self._set(good, key, INVALID)

        def undo() -> bool:
            now = self._policies()
            if (now.data or {}).get(key) == INVALID:  # otherwise a push has repaired it
                self._set(now, key, before.get(key))
            return True

        def mend() -> None:
            waiting.until(undo, deadline=_PATIENCE, what="the policies are put right")

        return f"{POLICIES}/{key}", mend

    def _policies(self) -> client.V1ConfigMap:
        with api_requests.explained("cannot read the policies"):
            return self._core.read_namespaced_config_map(POLICIES, NAMESPACE)

    def _set(self, config_map: client.V1ConfigMap, key: str, text: str | None) -> None:
        """Replace one key of the ConfigMap. If the ConfigMap has changed since it was read, this
        raises FairleadError, and the caller tries again.
        """
        others = {other: value for other, value in (config_map.data or {}).items() if other != key}
        data = others if text is None else {**others, key: text}
        body = client.V1ConfigMap(metadata=config_map.metadata, data=data)
        with api_requests.explained("cannot change the policies"):
            self._core.replace_namespaced_config_map(
                POLICIES, NAMESPACE, body, field_manager="kubectl-edit"
            )

"""A lock for the whole cluster, held in a Lease: only one controller or command (`deploy`,
`rotate cert`) at a time may change the certificate, and only one controller gives access.

The leader election of the kubernetes package is not used. It always takes the default client of the
process, cannot be stopped, and never gives the Lease back: it is made for processes that lead as
long as they live. Here a process leads for seconds in sixty days. The rules are those of client-go:
a Lease may be taken if its observer has not seen it renewed for its duration, and every change
names the version of the Lease that it is based on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.deployment import ownership
from fairlead.deployment.names import CERTIFICATE_LEASE, NAMESPACE
from fairlead.kube.api_requests import APPLY, MERGE, ApiRequests
from fairlead.kube.errors import ApiServerError

log = logging.getLogger(__name__)

DURATION = 15.0
"""Seconds without a renewal after which another holder may take the Lease."""
RENEWED = 3.0
"""Seconds between two renewals."""
MARGIN = 3.0
"""Seconds before the end of a Lease in which its holder changes nothing more."""
PATIENCE = 300.0
"""Seconds that a command waits for another holder. A renewal takes a minute or two if kubelets
refresh the mounted Secret."""

_DELETED = "whoever held the Lease that was deleted"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


@dataclass(frozen=True)
class Pace:
    """The times of a Lease, in seconds: DURATION, RENEWED and MARGIN, or others."""

    duration: float
    renewed: float
    margin: float


class Lost(FairleadError):
    """The Lease was not renewed in time, so that somebody else may hold it."""


class Lease:
    """The Lease as one holder sees it. Keep the object: it remembers what others did."""

    def __init__(
        self,
        api: ApiRequests,
        holder: str,
        *,
        name: str = CERTIFICATE_LEASE,
        pace: Pace | None = None,
        restored: bool = False,
    ) -> None:
        """`restored` says whether a Lease that somebody deleted is made again."""
        self._api = api
        self._holder = holder
        self._name = name
        self._path = f"{_LEASES}/{name}"
        self._pace = pace or Pace(DURATION, RENEWED, MARGIN)
        self._restored = restored
        self.holder: str | None = None
        """The other holder that was seen last; None if there was none."""
        self._seen: tuple[str, float] | None = None
        self._until = float("-inf")

    def check(self) -> None:
        """Raises Lost if the Lease is not held, or is about to end."""
        if time.monotonic() > self._until - self._pace.margin:
            raise Lost(
                f"{self._holder} no longer holds the Lease {self._name}: somebody else continues"
            )

    @contextmanager
    def attempt(self) -> Iterator[bool]:
        """Try once to hold the Lease during the block, which gets whether it is held. Raises
        ApiServerError if the API server cannot be asked.
        """
        acquired = self._take()
        with self._renewed() if acquired else nullcontext():
            yield acquired

    @contextmanager
    def held(self, *, forbidden: bool = True) -> Iterator[bool]:
        """Wait for the Lease and hold it during the block, which gets whether it is held.

        If the Lease does not exist, nothing in the cluster renews the certificate, and the block
        runs without it. If `forbidden` is False, the block also runs without a Lease that must not
        be read, because the check of permissions reports that better.

        Raises FairleadError with the holder after PATIENCE seconds, or if the API server cannot be
        asked.
        """
        try:
            self._api.call("GET", self._path)
        except ApiServerError as error:
            if error.status != 404 and (forbidden or error.status != 403):
                raise
            self._until = float("inf")
            yield False
            return
        waiting.until(
            self._taken,
            deadline=PATIENCE,
            what=f"nobody else is at work (Lease {self._name})",
            pause=0.5,
        )
        with self._renewed():
            yield True

    @contextmanager
    def _renewed(self) -> Iterator[None]:
        ended = Event()
        renewing = Thread(target=self._renew, args=(ended,), name="lease", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            self._release()

    def _taken(self) -> bool:
        """Take the Lease. Raises FairleadError with its holder if somebody else holds it."""
        if not self._take():
            raise FairleadError(f"{self.holder or 'another process'} holds it")
        return True

    def _take(self) -> bool:
        now, lease = time.monotonic(), self._found()
        version, spec = lease["metadata"]["resourceVersion"], lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        if holder and holder != self._holder:
            if self._seen is None or self._seen[0] != version:
                self._seen, self.holder = (version, now), str(holder)
            if now - self._seen[1] < float(spec.get("leaseDurationSeconds") or self._pace.duration):
                return False
            log.info("taking over the Lease %s, because %s does not renew it", self._name, holder)
        return self._write(
            version,
            self._holder,
            acquired=True,
            transitions=int(spec.get("leaseTransitions") or 0) + 1,
        )

    def _found(self) -> dict[str, Any]:
        try:
            return self._api.call("GET", self._path)
        except ApiServerError as error:
            if error.status != 404 or not self._restored:
                raise
        log.warning("the Lease %s was deleted, and is made again", self._name)
        # Who held it may not know yet, so nobody takes it before its duration has passed.
        spec = {"holderIdentity": _DELETED, "leaseDurationSeconds": int(self._pace.duration)}
        manifest = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._name,
                "namespace": NAMESPACE,
                "labels": ownership.labels(),
            },
            "spec": spec,
        }
        # Unlike a POST, RBAC can allow a PATCH that creates for one name alone.
        return self._api.call(
            "PATCH",
            self._path,
            manifest,
            manager=f"{self._name}-lease",
            content_type=APPLY,
        )

    def _renew(self, ended: Event) -> None:
        while not ended.wait(self._pace.renewed):
            try:
                lease = self._api.call("GET", self._path)
                if (lease.get("spec") or {}).get("holderIdentity") != self._holder:
                    self._until = float("-inf")
                    return
                self._write(lease["metadata"]["resourceVersion"], self._holder)
            except ApiServerError as error:
                log.warning("the Lease %s cannot be renewed: %s", self._name, error)

    def _release(self) -> None:
        holding, self._until = time.monotonic() < self._until, float("-inf")
        if holding:
            try:
                lease = self._api.call("GET", self._path)
                if (lease.get("spec") or {}).get("holderIdentity") == self._holder:
                    self._write(lease["metadata"]["resourceVersion"], "")
            except ApiServerError as error:
                if error.status != 404:  # else there is nothing to give back
                    log.warning("the Lease %s cannot be given back: %s", self._name, error)

    def _write(
        self, version: str, holder: str, *, acquired: bool = False, transitions: int = 0
    ) -> bool:
        """Write the Lease based on `version`; False if somebody else has changed it since."""
        start, now = (
            time.monotonic(),
            datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        )
        spec: dict[str, Any] = {
            "holderIdentity": holder,
            "leaseDurationSeconds": int(self._pace.duration),
            "renewTime": now,
        }
        if acquired:
            spec |= {"acquireTime": now, "leaseTransitions": transitions}
        try:
            self._api.call(
                "PATCH",
                self._path,
                {"metadata": {"resourceVersion": version}, "spec": spec},
                manager=self._name,
                content_type=MERGE,
            )
        except ApiServerError as error:
            if error.status == 409:
                return False
            raise
        self._until = start + self._pace.duration if holder else float("-inf")
        return True

"""A lock in the cluster: one process at a time may change the certificate (`deploy`, `rotate cert`,
or one keeper).

The kubernetes package has a leader election too, and a Lease to hold it. It is not used: it asks
the API server as its process' default client does, it cannot be stopped and never gives the Lease
back, so that it is for what leads as long as it lives. Here somebody leads for seconds in sixty
days. What counts is the same as in client-go: a Lease that has not been renewed for its duration,
by the clock of who looks at it, may be taken; every change names the version of the Lease that it
was made of.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import KEEPER
from fairlead.kube.apiserver import ApiServer
from fairlead.kube.errors import ApiServerError
from fairlead.settings.models import NAMESPACE

log = logging.getLogger(__name__)

NAME = KEEPER
DURATION = 15.0
"""Seconds after which a Lease that nobody renews may be taken."""
RENEWED = 3.0
"""Seconds between two renewals."""
MARGIN = 3.0
"""Seconds before the end of a Lease from which on its holder changes nothing more."""
PATIENCE = 300.0
"""Seconds for which a command waits for another holder; a renewal takes a minute or two where
kubelets have a part."""

_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"


class Lost(FairleadError):
    """The Lease was not renewed in time, and somebody else may hold it."""


class Lease:
    """The Lease as one holder sees it; made once, as it remembers what it saw of others."""

    def __init__(self, api: ApiServer, holder: str) -> None:
        self._api = api
        self._holder = holder
        self.holder: str | None = None
        """Who held it when somebody else was found to."""
        self._seen: tuple[str, float] | None = None
        self._until = float("-inf")

    def check(self) -> None:
        """Raises Lost where it is not held, or not for much longer."""
        if time.monotonic() > self._until - MARGIN:
            raise Lost(
                f"{self._holder} does not hold the Lease {NAME} any more: somebody else goes on"
            )

    @contextmanager
    def attempt(self) -> Iterator[bool]:
        """Hold it for the block, which is told whether it does. Raises ApiServerError where it
        cannot be asked for.
        """
        taken = self._take()
        with self._kept() if taken else nullcontext():
            yield taken

    @contextmanager
    def held(self, *, forbidden: bool = True) -> Iterator[bool]:
        """Hold it for the block; wait for it before. Where there is none, nobody in the cluster
        renews: go on without.

        The block is told whether it is held. Without `forbidden`, go on without it too where it may
        not be read: whoever looks at the rights tells that better.

        Raises FairleadError after PATIENCE seconds, with who holds it, and where it cannot be asked
        for.
        """
        try:
            self._api.get(_PATH)
        except ApiServerError as error:
            if error.status != 404 and (forbidden or error.status != 403):
                raise
            self._until = float("inf")
            yield False
            return
        waiting.until(
            self._take,
            deadline=PATIENCE,
            what=f"nobody else changes the certificate (Lease {NAME})",
            pause=0.5,
        )
        with self._kept():
            yield True

    @contextmanager
    def _kept(self) -> Iterator[None]:
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
        """Take it. Raises FairleadError with who holds it."""
        if not self._take():
            raise FairleadError(f"{self.holder} holds it")
        return True

    def _take(self) -> bool:
        now, lease = time.monotonic(), self._api.get(_PATH)
        version, spec = lease["metadata"]["resourceVersion"], lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        if holder and holder != self._holder:
            if self._seen is None or self._seen[0] != version:
                self._seen, self.holder = (version, now), str(holder)
            if now - self._seen[1] < float(spec.get("leaseDurationSeconds") or DURATION):
                return False
            log.info("taking the Lease %s, which %s does not renew", NAME, holder)
        return self._write(
            version,
            self._holder,
            taken=True,
            transitions=int(spec.get("leaseTransitions") or 0) + 1,
        )

    def _renew(self, ended: Event) -> None:
        while not ended.wait(RENEWED):
            try:
                lease = self._api.get(_PATH)
                if (lease.get("spec") or {}).get("holderIdentity") != self._holder:
                    self._until = float("-inf")
                    return
                self._write(lease["metadata"]["resourceVersion"], self._holder)
            except ApiServerError as error:
                log.warning("the Lease %s cannot be renewed: %s", NAME, error)

    def _release(self) -> None:
        holding, self._until = time.monotonic() < self._until, float("-inf")
        if holding:
            try:
                lease = self._api.get(_PATH)
                if (lease.get("spec") or {}).get("holderIdentity") == self._holder:
                    self._write(lease["metadata"]["resourceVersion"], "")
            except ApiServerError as error:
                log.warning("the Lease %s cannot be given back: %s", NAME, error)

    def _write(
        self, version: str, holder: str, *, taken: bool = False, transitions: int = 0
    ) -> bool:
        """Write it at this version; False where somebody else was faster."""
        begun, now = (
            time.monotonic(),
            datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        )
        spec: dict[str, Any] = {
            "holderIdentity": holder,
            "leaseDurationSeconds": int(DURATION),
            "renewTime": now,
        }
        if taken:
            spec |= {"acquireTime": now, "leaseTransitions": transitions}
        try:
            self._api.patch(
                _PATH, {"metadata": {"resourceVersion": version}, "spec": spec}, manager=NAME
            )
        except ApiServerError as error:
            if error.status == 409:
                return False
            raise
        self._until = begun + DURATION if holder else float("-inf")
        return True

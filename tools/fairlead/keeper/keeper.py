"""Renews the certificate in time for as long as its process runs, and reports the outcome."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import KEEPER, TLS_SECRET
from fairlead.keeper import renewal
from fairlead.keeper.lease import NAME, Lease
from fairlead.keeper.trust import Deployed, Secret
from fairlead.kube.apiserver import ApiServer
from fairlead.pki import certificates
from fairlead.settings.models import NAMESPACE

log = logging.getLogger(__name__)

MANAGER = KEEPER
"""The field manager of its changes."""
SHORTEST, LONGEST = 1.0, 60.0
"""Seconds between two looks at the certificate: a tenth of the time that it is left alone,
within these bounds."""
AGAIN = (5.0, 300.0)
"""Seconds until a renewal that failed is tried again, doubling; no more than a tenth of the time
that is left."""
REPEATED = 3600.0
"""Seconds after which the same Event is written again."""

_EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"


class Keeper:
    """One of several replicas, of which one at a time renews.

    A certificate that is good for `valid` is replaced when `before` of that is left. `replica`
    names this one.
    """

    name = "keeper"

    def __init__(
        self,
        api: ApiServer,
        servers: renewal.Servers,
        *,
        valid: timedelta,
        before: timedelta,
        replica: str,
        registry: CollectorRegistry,
    ) -> None:
        self._api = api
        self._servers = servers
        self._valid = valid
        self._before = before
        self._replica = replica
        self._lease = Lease(api, replica)
        self._deployed = Deployed(api, manager=MANAGER, check=self._lease.check)
        self._failures = 0
        self._trouble: str | None = None
        self._looked: str | None = None
        self._told: dict[str, tuple[str, float]] = {}
        self._renewals = Counter(
            "fairlead_certificate_renewals",
            "Renewals of OPA's certificate by this replica, by outcome.",
            ["outcome"],
            registry=registry,
        )
        for outcome in ("renewed", "failed"):
            self._renewals.labels(outcome)

    def run(self, stop: Event) -> None:
        """Look after the certificate until `stop` is set."""
        pause = 0.0
        while not stop.wait(pause):
            try:
                self.look()
            except Exception as error:
                self._failed(error)
                longest = min(max(self._before.total_seconds() / 10, AGAIN[0]), AGAIN[1])
                pause = min(AGAIN[0] * 2 ** min(self._failures - 1, 10), longest)
            else:
                self._failures, self._trouble = 0, None
                pause = self._pause()

    def health(self) -> dict[str, Any]:
        """{"before", "looked", "trouble"}: seconds, when it looked last (RFC 3339), and what
        keeps it from renewing.
        """
        return {
            "before": self._before.total_seconds(),
            "looked": self._looked,
            "trouble": self._trouble,
        }

    def look(self) -> None:
        """Renew the certificate if that is due, or end what another began. Raises FairleadError."""
        secret = self._deployed.secret()
        self._looked = datetime.now(UTC).isoformat(timespec="seconds")
        if secret is None:
            raise FairleadError(
                f"there is no Secret {TLS_SECRET} in namespace {NAMESPACE}: run `fairlead deploy`"
            )
        if secret.kept_by:
            self._leave(secret)
        elif not self._good(secret):
            with self._lease.attempt() as leading:
                if leading:
                    self._renew()

    def _good(self, secret: Secret) -> bool:
        """Whether there is nothing to do."""
        return (
            not self._due(secret) and secret.tls is not None and self._deployed.settled(secret.tls)
        )

    def _due(self, secret: Secret) -> bool:
        return secret.tls is None or secret.tls.left <= self._before

    def _renew(self) -> None:
        secret = self._deployed.secret()  # once more, now that nobody else changes it
        if secret is None or self._good(secret):
            return
        progress = _Logged()
        if not self._due(secret):
            log.info("ending what another began with the certificate")
            renewal.finish(self._deployed, self._servers, progress=progress)
            return
        tls = renewal.replaced(self._deployed, self._servers, self._valid, progress=progress)
        self._renewals.labels("renewed").inc()
        until = certificates.not_after(tls.certificate).isoformat()
        self._tell(
            "Normal",
            "CertificateRenewed",
            f"{self._replica} renewed OPA's certificate, until {until}",
        )

    def _leave(self, secret: Secret) -> None:
        """Leave alone what somebody else keeps, and would put back. Raises FairleadError once it
        has to be renewed.
        """
        if self._due(secret):
            until = (
                certificates.not_after(secret.tls.certificate).isoformat()
                if secret.tls
                else "an unknown time"
            )
            raise FairleadError(
                f"OPA's certificate lasts until {until}: renew it by {secret.kept_by}, which keeps "
                "it"
            )

    def _pause(self) -> float:
        alone = (self._valid - self._before).total_seconds()
        return min(max(alone / 10, SHORTEST), LONGEST)

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        if not isinstance(error, FairleadError):
            log.error("renewing the certificate failed", exc_info=error)
        elif str(error) != self._trouble:
            log.warning("the certificate: %s", error)
        self._trouble = str(error) or type(error).__name__
        self._renewals.labels("failed").inc()
        self._tell("Warning", "CertificateNotRenewed", f"{self._replica}: {self._trouble}")

    def _tell(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Write an Event about the Secret, the same one but once in a while; that it cannot be
        is no reason to stop.
        """
        text, at = self._told.get(reason, ("", float("-inf")))
        if kind == "Warning" and text == message and time.monotonic() - at < REPEATED:
            return
        self._told[reason] = (message, time.monotonic())
        log.log(logging.INFO if kind == "Normal" else logging.WARNING, "%s", message)
        try:
            self._api.create(_EVENTS, _event(kind, reason, message), manager=MANAGER)
        except FairleadError as error:
            log.warning("no Event could be written: %s", error)


class _Logged(Progress):
    """Each step as a line of the log."""

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        log.info("%s: %s", name, state)


def _event(kind: str, reason: str, message: str) -> Mapping[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{NAME}-", "namespace": NAMESPACE},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Secret",
            "name": TLS_SECRET,
            "namespace": NAMESPACE,
        },
        "type": kind,
        "reason": reason,
        "message": message[:1024],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": MANAGER},
    }

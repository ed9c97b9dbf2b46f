"""Checks OPA's certificate regularly, renews it in time, and reports the outcome: a part of
`fairlead controller`."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from threading import Event
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter

from fairlead.common import texts
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Logged
from fairlead.deployment.names import CONTROLLER, NAMESPACE, TLS_SECRET
from fairlead.keeper import renewal_steps
from fairlead.keeper.lease import Lease
from fairlead.keeper.trust import Deployed, Secret
from fairlead.kube.api_requests import ApiRequests
from fairlead.kube.events import event
from fairlead.pki import certificates

log = logging.getLogger(__name__)

SHORTEST, LONGEST = 1.0, 60.0
"""Bounds of the pause between two checks of the certificate, in seconds. The pause is a tenth of
the time between two renewals."""
AGAIN = (5.0, 300.0)
"""The shortest and longest pause after a failure, in seconds. The pause doubles with each renewal
that fails, up to a tenth of the time `before`; a failed look at the cluster costs little, and comes
again after the shortest."""
REPEATED = 3600.0
"""Seconds after which the same warning is written as an Event again."""

_EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
_SECRET = {"apiVersion": "v1", "kind": "Secret", "name": TLS_SECRET, "namespace": NAMESPACE}


class Keeper:
    """Renews the certificate. Of several replicas, one at a time renews it.

    A certificate is valid for the time `valid`, and is replaced when `before` of that is left.
    `replica` is the name of this replica.
    """

    name = "keeper"

    def __init__(
        self,
        api: ApiRequests,
        servers: renewal_steps.Servers,
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
        self._deployed = Deployed(api, manager=CONTROLLER, check=self._lease.check)
        self._failures = 0
        self._trouble: str | None = None
        self._looked: str | None = None
        self._reported: dict[str, tuple[str, float]] = {}
        self._renewals = Counter(
            "fairlead_certificate_renewals",
            "Renewals of OPA's certificate by this replica, by outcome.",
            ["outcome"],
            registry=registry,
        )
        for outcome in ("renewed", "failed"):
            self._renewals.labels(outcome)

    def run(self, stop: Event) -> None:
        """Check and renew the certificate until `stop` is set."""
        pause = 0.0
        while not stop.wait(pause):
            try:
                self.look()
            except Exception as error:
                self._failed(error)
                longest = min(max(self._before.total_seconds() / 10, AGAIN[0]), AGAIN[1])
                pause = min(AGAIN[0] * 2 ** max(min(self._failures - 1, 10), 0), longest)
            else:
                self._failures, self._trouble = 0, None
                pause = self._pause()

    def health(self) -> dict[str, Any]:
        """{"before", "looked", "reasons"}: the seconds before the end at which it renews, the time
        of the last check (RFC 3339), and why it cannot renew.
        """
        return {
            "before": self._before.total_seconds(),
            "looked": self._looked,
            "reasons": [self._trouble] if self._trouble else [],
        }

    def look(self) -> None:
        """Renew the certificate if it is due, or finish an interrupted renewal. Raises
        FairleadError if that fails.
        """
        secret = self._deployed.secret()
        self._looked = texts.now()
        if secret is None:
            raise FairleadError(
                f"there is no Secret {TLS_SECRET} in namespace {NAMESPACE}: run `fairlead deploy`"
            )
        if secret.kept_by:
            self._check_foreign(secret)
        elif not self._is_settled(secret):
            with self._lease.attempt() as leading:
                if leading:
                    self._renew()

    def _is_settled(self, secret: Secret) -> bool:
        """Whether there is nothing to do: no renewal is due and none was interrupted."""
        return (
            not self._due(secret) and secret.tls is not None and self._deployed.settled(secret.tls)
        )

    def _due(self, secret: Secret) -> bool:
        return secret.tls is None or secret.tls.is_due(self._before)

    def _renew(self) -> None:
        secret = self._deployed.secret()  # read again: now nobody else changes it
        if secret is None or self._is_settled(secret):
            return
        self._failures += 1  # until it ends well
        progress = Logged(log)
        if not self._due(secret):
            log.info("finishing a renewal of the certificate that was interrupted")
            renewal_steps.finish(self._deployed, self._servers, progress=progress)
            return
        tls = renewal_steps.replaced(self._deployed, self._servers, self._valid, progress=progress)
        self._renewals.labels("renewed").inc()
        end = texts.time(certificates.not_after(tls.certificate))
        self._report(
            "Normal",
            "CertificateRenewed",
            "; ".join(
                [f"{self._replica} renewed OPA's certificate, until {end}", *self._disabled()]
            ),
        )

    def _disabled(self) -> list[str]:
        """A sentence for each disabled intent; a renewal leaves it disabled."""
        return [record.sentence for record in self._deployed.disabled().values()]

    def _check_foreign(self, secret: Secret) -> None:
        """Check a certificate that something else renews, and that this replica must not change.
        Raises FairleadError if it is overdue.
        """
        if self._due(secret):
            end = (
                texts.time(certificates.not_after(secret.tls.certificate))
                if secret.tls
                else "an unknown time"
            )
            raise FairleadError(
                f"OPA's certificate lasts until {end}: renew it with {secret.kept_by}, which "
                "manages it"
            )

    def _pause(self) -> float:
        between_renewals = (self._valid - self._before).total_seconds()
        return min(max(between_renewals / 10, SHORTEST), LONGEST)

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, FairleadError):
            log.error("renewing the certificate failed", exc_info=error)
        elif str(error) != self._trouble:
            log.warning("the certificate: %s", error)
        self._trouble = str(error) or type(error).__name__
        self._renewals.labels("failed").inc()
        self._report("Warning", "CertificateNotRenewed", f"{self._replica}: {self._trouble}")

    def _report(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Write an Event about the Secret. The same warning is repeated only after REPEATED
        seconds. A failure to write it is only logged.
        """
        text, at = self._reported.get(reason, ("", float("-inf")))
        if kind == "Warning" and text == message and time.monotonic() - at < REPEATED:
            return
        self._reported[reason] = (message, time.monotonic())
        log.log(logging.INFO if kind == "Normal" else logging.WARNING, "%s", message)
        try:
            report = event(kind, reason, message, about=_SECRET, component=CONTROLLER)
            self._api.call("POST", _EVENTS, report, manager=CONTROLLER)
        except FairleadError as error:
            log.warning("the Event could not be written: %s", error)

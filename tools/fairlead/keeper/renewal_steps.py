"""Replaces OPA's certificate and its CA step by step, without one refused request.

1. Everyone trusts the new CA beside the old one.
2. Everyone serves with the new certificate.
3. Nobody trusts the old CA any more.

The Secret and the webhooks show which step was reached, so that an interrupted renewal can be
finished. Before the second step the next renewal begins again, because nobody has the new key yet.
After it, it finishes the third.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.credentials import Tls
from fairlead.deployment.names import TLS_SECRET
from fairlead.keeper.trust import Deployed
from fairlead.opa.containers import UNROUTED

SETTLE = 2.0
"""Seconds within which every API server sees a changed webhook. Nothing shows when it has."""


class Servers(Protocol):
    """The servers that mount the Secret: OPAs and sidecars."""

    def bring(self, tls: Tls) -> None:
        """Bring `tls`, which the Secret holds now, to where the servers read it, unless the cluster
        does so itself.
        """

    def trust(self, cas: bytes) -> bool:
        """Return when everything except API servers verifies OPA by `cas` (PEM). The result is true
        if OPA's pods were replaced for that: API servers may then be connected to pods that end.

        Raises FairleadError if that takes too long.
        """

    def serve(self, certificate: bytes) -> None:
        """Return when all servers serve with `certificate` (PEM). Raises FairleadError if that
        takes too long.
        """


def finish(deployed: Deployed, servers: Servers, *, progress: Progress) -> Tls:
    """Wait until the certificate in the Secret is served everywhere, and then trust only its CA.

    Raises FairleadError if a step takes too long. Then both CAs are trusted.
    """
    secret = deployed.secret()
    if secret is None or secret.tls is None:
        raise FairleadError(f"the Secret {TLS_SECRET} holds no certificate: run `fairlead deploy`")
    tls = secret.tls
    if deployed.settled(tls):
        return tls
    deployed.trust_also(tls.issuer)
    servers.serve(tls.certificate)
    progress.update("certificate", "making everyone distrust the old CA")
    settled = replace(tls, ca=tls.issuer)
    _publish(deployed, servers, settled)
    _trust(deployed, servers, settled.ca)
    return settled


def replaced(deployed: Deployed, servers: Servers, valid: timedelta, *, progress: Progress) -> Tls:
    """Replace the certificate and its CA by new ones that are valid for `valid`. An interrupted
    renewal is finished first.

    An expired certificate is replaced at once: no API server accepts it, so that no request can be
    refused because of the change. Raises FairleadError if a step takes too long. Then both CAs are
    trusted, and the next renewal finishes this one.
    """
    secret = deployed.secret()
    fresh = Tls.fresh(valid)
    if secret is None or secret.tls is None or secret.tls.remaining <= timedelta(0):
        progress.update("certificate", "replacing the expired certificate")
        _publish(deployed, servers, fresh)
    else:
        old = finish(deployed, servers, progress=progress)
        cas = old.ca + fresh.ca
        progress.update("certificate", "making everyone trust a new CA")
        _publish(deployed, servers, replace(old, ca=cas))
        _trust(deployed, servers, cas)
        time.sleep(SETTLE)
        progress.update("certificate", "serving with the new certificate")
        _publish(deployed, servers, replace(fresh, ca=cas))
    tls = finish(deployed, servers, progress=progress)
    progress.finish("certificate", "rotated")
    return tls


def _trust(deployed: Deployed, servers: Servers, cas: bytes) -> None:
    """Make everything verify OPA by `cas` (PEM)."""
    deployed.trust(cas)
    if servers.trust(cas):
        time.sleep(UNROUTED)
        deployed.reconnect()


def _publish(deployed: Deployed, servers: Servers, tls: Tls) -> None:
    deployed.publish(tls)
    servers.bring(tls)

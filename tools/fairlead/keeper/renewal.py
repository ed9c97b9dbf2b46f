"""Replaces OPA's certificate and its CA step by step, without one refused request.

1. Everyone trusts the new authority beside the old one.
2. Everyone serves with the new certificate.
3. Nobody trusts the old authority any more.

What was reached is read from the Secret and the webhooks, so that whoever comes after one who was
interrupted goes on: before the second step by beginning again, as the new key was nowhere yet, and
after it by ending the third.
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

SETTLE = 2.0
"""Seconds in which every API server sees a changed webhook; nothing tells when it has."""


class Servers(Protocol):
    """The servers that have the Secret mounted, OPAs and sidecars."""

    def bring(self, tls: Tls) -> None:
        """The Secret holds `tls` now: have it brought to where they read it, where nothing else
        does.
        """

    def trust(self, authorities: bytes) -> None:
        """Return when all that verifies OPA beside API servers does so by `authorities`. Raises
        FairleadError.
        """

    def serve(self, certificate: bytes) -> None:
        """Return when all of them serve with `certificate` (PEM). Raises FairleadError."""


def finish(deployed: Deployed, servers: Servers, *, progress: Progress) -> Tls:
    """Trust nothing but the authority of the certificate that is in the Secret, once that is served
    everywhere.

    Raises FairleadError where a step is not done in time: then both are trusted.
    """
    secret = deployed.secret()
    if secret is None or secret.tls is None:
        raise FairleadError(f"the Secret {TLS_SECRET} holds no certificate: run `fairlead deploy`")
    tls = secret.tls
    if deployed.settled(tls):
        return tls
    deployed.trust_also(tls.issuer)
    servers.serve(tls.certificate)
    progress.update("certificate", "making everyone distrust the old authority")
    settled = replace(tls, ca=tls.issuer)
    _publish(deployed, servers, settled)
    deployed.trust(settled.ca)
    servers.trust(settled.ca)
    return settled


def replaced(deployed: Deployed, servers: Servers, valid: timedelta, *, progress: Progress) -> Tls:
    """Replace the certificate and its authority by such as are good for `valid`; what was begun
    before is ended first.

    One that has ended is replaced at once: no API server takes it any more, so nobody can be
    refused for it. Raises FairleadError where a step is not done in time: then both are trusted,
    and the next renewal ends it.
    """
    secret = deployed.secret()
    fresh = Tls.fresh(valid)
    if secret is None or secret.tls is None or secret.tls.left <= timedelta(0):
        progress.update("certificate", "replacing the one that has ended")
        _publish(deployed, servers, fresh)
    else:
        old = finish(deployed, servers, progress=progress)
        both = old.ca + fresh.ca
        progress.update("certificate", "making everyone trust a new authority")
        _publish(deployed, servers, replace(old, ca=both))
        deployed.trust(both)
        servers.trust(both)
        time.sleep(SETTLE)
        progress.update("certificate", "serving with the new certificate")
        _publish(deployed, servers, replace(fresh, ca=both))
    tls = finish(deployed, servers, progress=progress)
    progress.update("certificate", "rotated")
    return tls


def _publish(deployed: Deployed, servers: Servers, tls: Tls) -> None:
    deployed.publish(tls)
    servers.bring(tls)

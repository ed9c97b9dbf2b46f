"""Reports when OPA's certificate and CA end, what renews them, and what prevents that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import durations, texts
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import CONTROLLER, NAMESPACE, TLS_SECRET
from fairlead.keeper import trust
from fairlead.kube import clients
from fairlead.operations import deployed_state
from fairlead.pki import certificates as pki
from fairlead.settings.models import Certificates


def certificates(cluster: Cluster, objects: clients.Objects) -> list[dict[str, Any]]:
    """OPA's certificate and its CA, as a {name, notAfter, renewed, by, renewer, warning} each;
    empty if there is none.

    `renewed` is when it was last renewed (both times as RFC 3339), and `by` the field manager that
    did it. `renewer` is what will renew it next, None for nothing; `warning` is None while all is
    well.
    """
    secret = objects.get("v1", "Secret", TLS_SECRET, NAMESPACE)
    stored = trust.read(secret) if secret else None
    if stored is None or stored.tls is None:
        return []
    policy = deployed_state.certificates(objects)
    renewer, trouble = _renewer(cluster, policy, stored)
    return [
        {
            "name": name,
            "notAfter": texts.time(pki.not_after(pem)),
            "renewed": stored.at,
            "by": stored.by,
            "renewer": renewer,
            "warning": _warning(
                pki.not_after(pem) - datetime.now(UTC), policy.renewal, renewer, trouble
            ),
        }
        for name, pem in {
            TLS_SECRET: stored.tls.certificate,
            f"{TLS_SECRET}-ca": stored.tls.issuer,
        }.items()
    ]


def _renewer(
    cluster: Cluster, policy: Certificates, stored: trust.Secret
) -> tuple[str | None, str | None]:
    """What renews the certificate, None for nothing, and what prevents that."""
    if policy.by != "fairlead":
        return policy.by, None
    if stored.kept_by:
        return stored.kept_by, None
    keepers = [health["keeper"] for health in _healths(cluster) if health.get("keeper")]
    reasons = [reason for keeper in keepers for reason in keeper["reasons"]]
    return (CONTROLLER if keepers else None), next(iter(reasons), None)


def _healths(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """The health of each controller that answers."""
    for controller in cluster.controllers():
        with suppress(FairleadError):
            yield deployed_state.health(controller)


def _warning(
    remaining: timedelta, renewal: timedelta, renewer: str | None, trouble: str | None
) -> str | None:
    way_out = "`fairlead rotate cert`, or `fairlead deploy`, replaces it"
    if renewer == "cert-manager":
        way_out = "see `kubectl describe certificate -n fairlead`"
    elif renewer and renewer != CONTROLLER:
        way_out = f"`{renewer}` renews it"
    reason = f" ({trouble})" if trouble else ""
    if remaining <= timedelta(0):
        return f"has ended{reason}: {way_out}"
    if remaining <= renewal:
        return f"{durations.text(_rounded(remaining))} left, and not renewed{reason}: {way_out}"
    return (
        None
        if renewer
        else "nothing renews it before it ends: run `fairlead deploy`, and wait until all of it is "
        "Ready"
    )


def _rounded(duration: timedelta) -> timedelta:
    """Rounded down to days, or below a day to minutes or seconds."""
    unit = next(
        (u for u in (timedelta(days=1), timedelta(minutes=1)) if duration >= u),
        timedelta(seconds=1),
    )
    return duration // unit * unit

"""Reads the state of a deployment: what each OPA serves, what each sidecar reports, and the
deployed credentials."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import requests

from fairlead.clusters.base import OpaServer, SidecarServer
from fairlead.common.errors import FairleadError
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import (
    CONFIRMED,
    NAMESPACE,
    POLICIES,
    TLS_SECRET,
    TOKEN_SECRET,
)
from fairlead.kube import clients
from fairlead.opa.api import OpaApi
from fairlead.operations import history, leftovers
from fairlead.policy import bundles
from fairlead.settings.models import Certificates


@dataclass(frozen=True)
class Served:
    """The state of one OPA. `revision` is None if it serves none of our policies, or cannot be
    reached.

    `confirmed` is the time up to which its sidecar has confirmed all of its data, and `age` how
    many seconds ago that is, by OPA's own clock. Both are None if nobody has confirmed any, or if
    OPA cannot be reached: `error` says why.
    """

    opa: OpaServer
    ready: bool
    revision: str | None
    confirmed: datetime | None = None
    age: float | None = None
    error: str | None = None


def credentials(objects: clients.Objects) -> Credentials | None:
    """The deployed credentials; None if there are none, or if they are incomplete."""
    token, tls = (
        objects.get("v1", "Secret", name, NAMESPACE) for name in (TOKEN_SECRET, TLS_SECRET)
    )
    return Credentials.kept(token and token.get("data"), tls and tls.get("data"))


def certificates(objects: clients.Objects) -> Certificates:
    """The deployed settings of certificates; the defaults if the cluster does not say."""
    config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {}
    settings = history.settings_of(config_map) or {}
    try:
        return Certificates.model_validate(settings["certificates"])
    except (KeyError, ValueError):  # pydantic's error is a ValueError
        return Certificates()


def served(opa: OpaServer, token: str | None) -> Served:
    """The state of `opa`."""
    api = OpaApi(opa.url, ca=opa.ca, token=token)
    try:
        ready = api.ready()
        prefix = leftovers.PREFIX
        modules = {
            id_.removeprefix(prefix): text
            for id_, text in api.policies().items()
            if id_.startswith(prefix)
        }
        confirmed = _confirmed(api)
    except FairleadError as error:
        return Served(opa, False, None, error=str(error))
    finally:
        api.close()
    return Served(opa, ready, bundles.revision(modules) if modules else None, *confirmed)


def _confirmed(api: OpaApi) -> tuple[datetime | None, float | None]:
    """The time up to which data are confirmed, and how many seconds ago that is. Raises
    FairleadError.
    """
    match api.document([CONFIRMED]):
        case {"at": int(at)}:
            return datetime.fromtimestamp(at // 10**9, UTC), (api.now() - at) / 1e9
    return None, None


def health(sidecar: SidecarServer) -> dict[str, Any]:
    """A sidecar's own health report, healthy or not. Raises FairleadError if it cannot be
    reached.
    """
    with requests.Session() as session:
        session.trust_env = False  # REQUESTS_CA_BUNDLE would override `verify`
        try:
            return dict(
                session.get(f"{sidecar.url}/health", verify=str(sidecar.ca), timeout=5).json()
            )
        except (requests.RequestException, ValueError, OSError) as error:
            raise FairleadError(f"{sidecar.url}: {error}") from error

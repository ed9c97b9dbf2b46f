"""Reads the state of a deployment: what each OPA serves, what each sidecar reports, and the
deployed credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import requests

from fairlead.clusters.base import OpaServer, Server
from fairlead.common.errors import FairleadError
from fairlead.deployment import engine_names
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import (
    CONFIRMED,
    NAMESPACE,
    OPA_ENGINE,
    POLICIES,
    PYTHON_ENGINE,
    TLS_SECRET,
    TOKEN_SECRET,
    scoped_secret,
)
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.opa.api import OpaApi
from fairlead.opa.connections import NamedHost
from fairlead.operations import history, leftovers
from fairlead.policy import bundles
from fairlead.settings.models import Certificates
from fairlead.settings.services import SCOPES


@dataclass(frozen=True)
class Served:
    """The state of one OPA. `revision` is None if it serves none of our policies, or cannot be
    reached.

    `confirmed` is the time up to which its sidecar has confirmed all of its data, and `age` how
    many seconds ago that is, by OPA's own clock. Both are None if nobody has confirmed any, or if
    OPA cannot be reached: `error` says why.

    Of a server in Python, `trouble` says why it is not ready, and `rejected` which policies it
    cannot use: {revision, error}.

    `modules` are those of OPA that come from objects of the cluster, by their ids.
    """

    opa: OpaServer
    ready: bool
    revision: str | None
    confirmed: datetime | None = None
    age: float | None = None
    error: str | None = None
    trouble: str | None = None
    rejected: Mapping[str, str] | None = None
    modules: Mapping[str, str] = field(default_factory=dict, repr=False)


def config_map(objects: clients.Objects) -> dict[str, Any] | None:
    """The ConfigMap of the policies; None if nothing is deployed."""
    return objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)


def engine(objects: clients.Objects) -> str:
    """The engine that enforces the policies of the cluster; `opa` if nothing is deployed, or if the
    user may not read what is.
    """
    try:
        return engine_names.of(config_map(objects))
    except Refused as error:
        if error.status != 403:
            raise
        return OPA_ENGINE


def credentials(objects: clients.Objects) -> Credentials | None:
    """The deployed credentials; None if there are none, or if they are incomplete."""

    def data(name: str) -> Mapping[str, str] | None:
        secret = objects.get("v1", "Secret", name, NAMESPACE)
        return secret and secret.get("data")

    return Credentials.kept(
        data(TOKEN_SECRET),
        data(TLS_SECRET),
        scoped={scope: data(scoped_secret(scope)) for scope in SCOPES},
    )


def certificates(objects: clients.Objects) -> Certificates:
    """The deployed settings of certificates; the defaults if the cluster does not say."""
    settings = history.settings_of(config_map(objects) or {}) or {}
    try:
        return Certificates.model_validate(settings["certificates"])
    except (KeyError, ValueError):  # pydantic's error is a ValueError
        return Certificates()


def served(opa: OpaServer, token: str | None) -> Served:
    """The state of `opa`."""
    if opa.engine == PYTHON_ENGINE:
        return _of_python(opa)
    api = opa.api(token)
    try:
        ready = api.ready()
        prefix, policies = leftovers.PREFIX, api.policies()
        ours = {
            id_.removeprefix(prefix): text
            for id_, text in policies.items()
            if id_.startswith(prefix)
        }
        revision = bundles.revision(ours) if ours else _of_bundle(api)
        confirmed = _confirmed(api)
    except FairleadError as error:
        return Served(opa, False, None, error=str(error))
    finally:
        api.close()
    modules = {id_: text for id_, text in policies.items() if id_.startswith(f"{NAMESPACE}/")}
    return Served(opa, ready, revision, *confirmed, modules=modules)


def _of_bundle(api: OpaApi) -> str | None:
    """The revision of the signed bundle of policies that OPA has; None if it has none. Raises
    FairleadError.
    """
    revision = api.document(["system", "bundles", "policies", "manifest", "revision"])
    return None if revision is None else str(revision)


def _of_python(server: OpaServer) -> Served:
    try:
        report = fetched(server, "/health/ready")
        ready, trouble = report["status"] == "ok", str(report["status"])
        return Served(
            server,
            ready,
            report.get("revision"),
            trouble=None if ready else trouble,
            rejected=report.get("rejected"),
        )
    except (FairleadError, KeyError) as error:
        return Served(server, False, None, error=str(error))


def _confirmed(api: OpaApi) -> tuple[datetime | None, float | None]:
    """The time up to which data are confirmed, and how many seconds ago that is. Raises
    FairleadError.
    """
    match api.document([CONFIRMED]):
        case {"at": int(at)}:
            return datetime.fromtimestamp(at // 10**9, UTC), (api.now() - at) / 1e9
    return None, None


def health(server: Server) -> dict[str, Any]:
    """The server's own health report, healthy or not. Raises FairleadError if it cannot be
    reached.
    """
    return fetched(server, "/health")


def report(server: Server, *further: str) -> dict[str, Any]:
    """{pod, url, pid, healthy, reasons} of a server, and `further` fields of its own report. One
    that does not answer is not healthy.
    """
    answer: dict[str, Any] = {}
    try:
        answer = health(server)
        healthy, reasons = bool(answer["healthy"]), [str(reason) for reason in answer["reasons"]]
    except (FairleadError, KeyError, TypeError) as error:
        healthy, reasons = False, [f"it does not answer ({error})"]
    return {
        "pod": server.pod,
        "url": server.url,
        "pid": server.pid,
        "healthy": healthy,
        "reasons": reasons,
        **{field: answer.get(field) for field in further},
    }


def fetched(server: Server, path: str, token: str | None = None) -> dict[str, Any]:
    """The JSON object at a path of a server, whatever the status. Raises FairleadError."""
    url, headers = server.url + path, {"Authorization": f"Bearer {token}"} if token else {}
    with requests.Session() as session:
        session.trust_env = False  # REQUESTS_CA_BUNDLE would override `verify`
        if server.hostname is not None:
            session.mount("https://", NamedHost(server.hostname))
        try:
            return dict(session.get(url, headers=headers, verify=str(server.ca), timeout=5).json())
        except (requests.RequestException, ValueError, TypeError, OSError) as error:
            raise FairleadError(f"{url}: {error}") from error

"""Waits until every OPA serves a revision, and reads the state of a deployment: OPAs, sidecars,
policies and credentials."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import requests

from fairlead.clusters.base import Cluster, OpaServer, SidecarServer
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import (
    CONFIRMED,
    POLICIES,
    POLICY_LABEL,
    REPLICA_STATUS,
    RETRIES,
    SETTINGS_ANNOTATION,
    STATUS,
    TLS_SECRET,
    TOKEN_SECRET,
)
from fairlead.kube import clients
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import OpaRefused, describe
from fairlead.operations import leftovers
from fairlead.policy import bundles
from fairlead.policy.revision import MAIN, fingerprint
from fairlead.settings.models import NAMESPACE, Certificates

_UNLOADED = 10.0
"""Seconds in which a sidecar that unloads old modules has to do it, before it is done here."""


_UNREACHED = "kube-mgmt did not reach OPA"


class RevisionRejected(FairleadError):
    """OPA does not take the policies; what it served before stays in force."""


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
    annotations = config_map.get("metadata", {}).get("annotations") or {}
    try:
        return Certificates.model_validate(
            json.loads(annotations[SETTINGS_ANNOTATION])["certificates"]
        )
    except (KeyError, TypeError, ValueError):  # pydantic's error is a ValueError
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


def policies(objects: clients.Objects) -> list[dict[str, Any]]:
    """Each ConfigMap of policies as {name, status, error}: `ok`, `error` with OPA's words, or
    `pending`.
    """
    return [
        {"name": config_map["metadata"]["name"], **_status(config_map)}
        for config_map in objects.list("v1", "ConfigMap", NAMESPACE, "=".join(POLICY_LABEL))
    ]


def wait(
    cluster: Cluster,
    objects: clients.Objects,
    token: str,
    modules: Mapping[str, str],
    *,
    progress: Progress,
    deadline: float = 30.0,
    stale: str | None = None,
) -> list[Served]:
    """Return when every OPA of the cluster is ready and serves `modules`, the data of the policies'
    ConfigMap.

    If the token is replaced meanwhile, the new one is used. Raises RevisionRejected as soon as a
    sidecar says that its OPA does not take the policies, leftovers.Stuck if an OPA keeps a module
    that is not in `modules`, and FairleadError after `deadline` seconds. kube-mgmt's status does
    not say which content it is about: `stale` is the annotation from before, which says nothing
    about this revision.
    """
    revision, about = bundles.revision(modules), fingerprint(modules)
    progress.update("policies", f"waiting until every OPA serves {revision}")

    def check() -> list[Served] | None:
        nonlocal token
        try:
            return look()
        except OpaRefused:
            if fresh := credentials(objects):
                token = fresh.token
            raise

    # The kube-mgmts of pods that end give each other new retries for as long as they last.
    unsettled = time.monotonic() + _UNLOADED
    switched: float | None = None
    declined = 0  # times that a kube-mgmt said so, with nothing left that it may be for

    def look() -> list[Served] | None:
        nonlocal switched, declined
        config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {}
        opas = cluster.opas()
        current = config_map.get("data") == dict(modules)  # nobody else is pushing
        if cluster.sidecars():
            statuses = [status for status in _replicas(config_map) if status.get("of") == about]
            for status in statuses:
                if status.get("status") == "error":
                    raise _Stop(_line(status.get("error")))
        elif _annotation(config_map) != stale and (
            (settled := (status := _status(config_map))["status"] == "error")
            or (status["error"] and time.monotonic() > unsettled)
        ):
            if status["error"] == _UNREACHED:
                if settled:
                    _try_again(objects)
                return None
            # One annotation is written by every kube-mgmt, also by those whose pods end: what OPA
            # itself says counts.
            in_force = all(served(opa, token).revision == revision for opa in opas)
            if not in_force:
                # What it leaves may be what OPA declined the rest for, such as a file's old name.
                removed = current and sum(
                    [leftovers.remove(opa, token, modules, staged=False) for opa in opas]
                )
                declined += settled and not removed
                if settled and (declined >= max(2, len(opas)) or not current):
                    raise _Stop(status["error"])
                if settled or removed:
                    _try_again(objects)
                return None
        if not all(_switched(opa, token, modules) for opa in opas):
            return None
        switched = switched or time.monotonic()
        if current and (not cluster.sidecar.unloads or time.monotonic() > switched + _UNLOADED):
            for opa in opas:
                leftovers.remove(opa, token, modules)
        states = [served(opa, token) for opa in opas]
        return (
            states if states and all(s.ready and s.revision == revision for s in states) else None
        )

    try:
        states = waiting.until(
            check, deadline=deadline, what=f"every OPA serves revision {revision}"
        )
    except _Stop as error:
        raise RevisionRejected(f"OPA does not take revision {revision}: {error}") from None
    except FairleadError as error:
        if isinstance(error.__cause__, leftovers.Stuck):
            raise leftovers.Stuck(str(error.__cause__)) from error
        raise
    progress.update("policies", f"revision {revision} in force")
    return states


def _try_again(objects: clients.Objects) -> None:
    """Have kube-mgmt load the policies once more, which it does at any change while it has retries
    left.
    """
    metadata = {"name": POLICIES, "namespace": NAMESPACE}
    policies = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    objects.merge(policies, {"metadata": {"annotations": {RETRIES: "1"}}})


def _switched(opa: OpaServer, token: str, modules: Mapping[str, str]) -> bool:
    """Whether the OPA serves the main.rego of `modules`. It is loaded last, and costs little to
    compare repeatedly.
    """
    api = OpaApi(opa.url, ca=opa.ca, token=token)
    try:
        return api.policy(f"{NAMESPACE}/{POLICIES}/{MAIN}") == modules.get(MAIN)
    finally:
        api.close()


def annotation(objects: clients.Objects) -> str | None:
    """The raw status annotation of the policies' ConfigMap."""
    return _annotation(objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {})


class _Stop(Exception):
    """Ends the wait early."""


def _annotation(config_map: dict[str, Any], name: str = STATUS) -> str | None:
    value = (config_map.get("metadata", {}).get("annotations") or {}).get(name)
    return None if value is None else str(value)


def _replicas(config_map: dict[str, Any]) -> list[dict[str, Any]]:
    """The report of each replica of `fairlead sync` on the ConfigMap: {"status", "error"?, "of": a
    fingerprint}.
    """
    states = []
    for name in config_map.get("metadata", {}).get("annotations") or {}:
        if name.startswith(REPLICA_STATUS):
            try:
                states.append(dict(json.loads(_annotation(config_map, name) or "")))
            except (ValueError, TypeError):
                continue  # somebody changed it; its replica will write it again
    return states


def _status(config_map: dict[str, Any]) -> dict[str, Any]:
    """The status annotation, parsed. kube-mgmt and `fairlead sync` write the same form, and people
    may write anything.
    """
    raw = _annotation(config_map)
    if raw is None:
        return {"status": "pending", "error": None}
    try:
        status = json.loads(raw)
        state, problem = str(status["status"]), status.get("error")
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"status": "unknown", "error": f"the annotation {STATUS} cannot be read"}
    if state == "error" and _annotation(config_map, RETRIES) not in (None, "0"):
        state = "pending"
    return {"status": state, "error": _line(problem) if problem else None}


def _line(problem: Any) -> str:
    """OPA's error object, or a list of them, in one line; _UNREACHED for an error of Go's net/http,
    which kube-mgmt reports if it does not reach OPA.
    """
    problems = problem if isinstance(problem, list) else [problem]
    lines = (
        _UNREACHED
        if isinstance(each, dict) and {"Op", "URL", "Err"} <= each.keys()
        else describe(each).replace("\n", "; ")
        for each in problems
    )
    return "; ".join(dict.fromkeys(lines))

"""What `fairlead status` shows of a deployment with pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import texts
from fairlead.deployment import disabled_intents
from fairlead.deployment.names import (
    ACCESS_ENDS,
    CONTROLLER,
    NAMESPACE,
    OPA_ENGINE,
    TLS_SECRET,
)
from fairlead.kube import clients
from fairlead.operations import (
    bundle_following,
    certificate_status,
    deployed_state,
    drift,
    orphaned_modules,
    policy_status,
    problems,
    replication_lag,
    transient_access,
)
from fairlead.operations.deployed_state import Served
from fairlead.operations.orphaned_modules import Orphan
from fairlead.operations.strategies.base import Description
from fairlead.policy import bundles


def describe(
    cluster: Cluster, objects: clients.Objects, config_map: Mapping[str, Any] | None
) -> Description:
    """The state of the pods, and of what asks them; see fairlead.operations.status.status."""
    credentials = deployed_state.credentials(objects)
    token = credentials.token if credentials else None
    by_opa = cluster.sidecar.engine == OPA_ENGINE
    states = [deployed_state.served(opa, token) for opa in cluster.opas()]
    sidecars = [deployed_state.report(sidecar, "leftOut") for sidecar in cluster.sidecars()]
    controllers = transient_access.controllers(cluster)
    if by_opa:
        loaded = _loaded(objects, states)
    else:
        loaded = _Loaded([_in_python(config_map, states)] if config_map else [])
    followed = bundle_following.followed(objects)
    deployments = [
        objects.get("apps/v1", "Deployment", name, NAMESPACE) for name in (CONTROLLER, ACCESS_ENDS)
    ]
    comparison = drift.compare(cluster, objects)
    noun = "OPA" if by_opa else "server in Python"
    return Description(
        engine=cluster.sidecar.engine,
        rows={
            "deployed": credentials is not None or bool(loaded.policies),
            "sidecar": cluster.sidecar.name if by_opa else None,
            "bundles": followed,
            "opa": [_row(state) for state in states],
            "sidecars": sidecars,
            "controllers": controllers,
            "policies": loaded.policies,
            "data": loaded.data,
            "orphans": [orphan.document() for orphan in loaded.orphans],
            "certificates": certificate_status.certificates(cluster, objects),
        },
        comparison=comparison,
        disabled=disabled_intents.webhooks(objects).disabled,
        dated={}
        if credentials is None
        else {TLS_SECRET: credentials.certificate, f"{TLS_SECRET}-ca": credentials.ca},
        problems=[
            *problems.of_opas(states, _expected_opas(objects), noun),
            *problems.of_silence(states, comparison, noun),
            *problems.of_sidecars(states, sidecars if cluster.sidecar.look_up else None),
            *problems.of_controllers(controllers, *deployments),
            *problems.of_replication(_lags(cluster, states, token) if by_opa else ()),
            *problems.of_policies(loaded.policies, loaded.data),
            *problems.of_orphans(loaded.orphans),
            *problems.of_bundles(followed, config_map),
        ],
    )


def _row(state: Served) -> dict[str, Any]:
    return {
        "pod": state.opa.pod,
        "url": state.opa.url,
        "ca": str(state.opa.ca),
        "pid": state.opa.pid,
        "ready": state.ready,
        "revision": state.revision,
        "confirmed": texts.time(state.confirmed) if state.confirmed else None,
    }


@dataclass(frozen=True)
class _Loaded:
    """What servers should have, and what OPAs have beside it."""

    policies: list[dict[str, Any]] = field(default_factory=list)
    data: list[dict[str, Any]] = field(default_factory=list)
    orphans: list[Orphan] = field(default_factory=list)


def _loaded(objects: clients.Objects, states: Iterable[Served]) -> _Loaded:
    if objects.get("v1", "Namespace", NAMESPACE) is None:
        return _Loaded()
    sources = policy_status.sources(objects)
    return _Loaded(
        policy_status.policies(objects),
        policy_status.data(objects),
        [orphan for state in states for orphan in orphaned_modules.of_opa(state, sources)],
    )


def _in_python(config_map: Mapping[str, Any], states: Iterable[Served]) -> dict[str, Any]:
    """The policies' ConfigMap, and whether the servers in Python use it, as a row of `policies`."""
    states = list(states)
    revision = bundles.revision(config_map.get("data") or {})
    errors = [state.rejected["error"] for state in states if state.rejected]
    everywhere = all(state.revision == revision for state in states)
    state = "error" if errors else "ok" if everywhere else "pending"
    name = config_map["metadata"]["name"]
    return {"name": name, "status": state, "error": next(iter(errors), None), "used": True}


def _lags(
    cluster: Cluster, states: Iterable[Served], token: str | None
) -> Iterator[tuple[Served, replication_lag.Lag | None]]:
    """What OPAs lack of the cluster's namespaces, if no sidecar reports the age of its data."""
    for state in states:
        if not cluster.sidecar.look_up and state.error is None:
            yield state, replication_lag.lag(cluster, state.opa, token)


def _expected_opas(objects: clients.Objects) -> int:
    """The least number of OPAs that have to be there."""
    deployment = objects.get("apps/v1", "Deployment", "opa", NAMESPACE) or {}
    return max(1, (deployment.get("spec") or {}).get("replicas") or 0)

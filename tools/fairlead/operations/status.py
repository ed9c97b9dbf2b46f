"""The status of a deployment: what runs, what it serves, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import texts
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import (
    ACCESS,
    NAMESPACE,
    OPA_ENGINE,
    POLICIES,
    TLS_SECRET,
)
from fairlead.kube import clients
from fairlead.operations import (
    bundle_following,
    certificate_status,
    deployed_state,
    disabling,
    drift,
    policy_status,
    problems,
    replication_lag,
    transient_access,
)
from fairlead.operations.deployed_state import Served
from fairlead.policy import bundles


def status(cluster: Cluster) -> dict[str, Any]:
    """The cluster's state: {name, cluster, kubeconfig, deployed, engine, sidecar, opa, policies,
    certificates, ...}.

    - `intents`: the deployed ones, as {name, enforcement, kinds}; empty if they cannot be read
    - `bundles`: the URL of the signed bundles that the OPAs follow; None if a sidecar loads their
      policies. The objects are not compared then, as nothing in the cluster has the settings
    - `deployed`: whether anything of Fairlead is there
    - `engine`: `opa`, or `python`; `sidecar` is None then, and `opa` lists the servers in Python
    - `opa`: a list of {pod, url, ca, pid, ready, revision, confirmed}; `confirmed` is the time up
      to which all of its data are confirmed (RFC 3339), None if nobody has confirmed any
    - `sidecars`: those that report their health, as {pod, url, pid, healthy, reasons}
    - `access`: see transient_access.controllers
    - `policies`: a list of {name, status, error, used}; see policy_status.policies
    - `objects`: webhooks, guards and rights, as {kind, name, namespace, state, fields,
      failurePolicy}; see drift.Compared
    - `disabled`: the intents that `fairlead disable` disabled, as {intent, by, since, reason}
    - `certificates`: see certificate_status.certificates
    - `servers`: a list of {name, pid, restarts, running}
    - `problems`: sentences about everything that is not as it should be

    Raises FairleadError if the API server does not answer.
    """
    objects = cluster.objects()
    credentials = deployed_state.credentials(objects)
    token = credentials.token if credentials else None
    by_opa = cluster.sidecar.engine == OPA_ENGINE
    states = [deployed_state.served(opa, token) for opa in cluster.opas()]
    config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    if by_opa:
        there = objects.get("v1", "Namespace", NAMESPACE) is not None
        policies = policy_status.policies(objects) if there else []
    else:
        policies = [_in_python(config_map, states)] if config_map else []
    sidecars = [deployed_state.report(sidecar) for sidecar in cluster.sidecars()]
    access = transient_access.controllers(cluster)
    running = servers(cluster)
    followed = bundle_following.followed(objects)
    comparison = drift.compare(cluster, objects)
    disabled = disabling.read(objects)
    dated = (
        {}
        if credentials is None
        else {TLS_SECRET: credentials.certificate, f"{TLS_SECRET}-ca": credentials.ca}
    )
    return {
        "name": cluster.name,
        "cluster": cluster.kind,
        "kubeconfig": str(cluster.kubeconfig),
        "deployed": credentials is not None or bool(policies),
        "engine": cluster.sidecar.engine,
        "sidecar": cluster.sidecar.name if by_opa else None,
        "bundles": followed,
        "opa": [
            {
                "pod": state.opa.pod,
                "url": state.opa.url,
                "ca": str(state.opa.ca),
                "pid": state.opa.pid,
                "ready": state.ready,
                "revision": state.revision,
                "confirmed": texts.time(state.confirmed) if state.confirmed else None,
            }
            for state in states
        ],
        "sidecars": sidecars,
        "access": access,
        "intents": intents(config_map),
        "policies": policies,
        "objects": documents(comparison),
        "disabled": [asdict(record) for record in disabled.records.values()],
        "certificates": certificate_status.certificates(cluster, objects),
        "servers": running,
        "problems": [
            *problems.of_disabled(disabled),
            *problems.of_opas(
                states, _expected_opas(objects), "OPA" if by_opa else "server in Python"
            ),
            *problems.of_sidecars(states, sidecars if cluster.sidecar.look_up else None),
            *problems.of_access(access, objects.get("apps/v1", "Deployment", ACCESS, NAMESPACE)),
            *problems.of_replication(_lags(cluster, states, token) if by_opa else ()),
            *problems.of_policies(policies),
            *problems.of_bundles(followed, config_map),
            *problems.of_objects(comparison),
            *problems.of_certificates(dated),
            *problems.of_servers(running),
        ],
    }


def servers(cluster: Cluster) -> list[dict[str, Any]]:
    """The servers of the cluster, as {name, pid, restarts, running}."""
    return [
        {
            "name": name,
            "pid": server["pid"],
            "restarts": server["restarts"],
            "running": server.get("running", server["pid"] is not None),
        }
        for name, server in cluster.servers().items()
    ]


def documents(comparison: drift.Comparison) -> list[dict[str, Any]]:
    """The objects of a comparison, as `status` lists them."""
    return [
        {
            "kind": entry.kind,
            "name": entry.name,
            "namespace": entry.namespace,
            "state": entry.state,
            "fields": list(entry.fields),
            "failurePolicy": entry.failure_policy,
        }
        for entry in comparison.objects
    ]


def intents(config_map: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The intents of the deployed policies, with the kinds of objects that they have a say in."""
    if config_map is None:
        return []
    try:
        settings = drift.settings(config_map)
        active = bundles.Bundle(config_map.get("data") or {}).active(settings)
    except FairleadError:  # the comparison of webhooks says why
        return []
    return [
        {
            "name": one.name,
            "enforcement": settings.mode(one.name),
            "kinds": sorted({kind.kind for request in one.requests for kind in request.kinds}),
        }
        for one in active
    ]


def _in_python(config_map: Mapping[str, Any], states: Iterable[Served]) -> dict[str, Any]:
    """The policies' ConfigMap, and whether the servers in Python use it, as a row of `policies`."""
    revision = bundles.revision(config_map.get("data") or {})
    errors = [state.rejected["error"] for state in states if state.rejected]
    served = all(state.revision == revision for state in states)
    state = "error" if errors else "ok" if served else "pending"
    name = config_map["metadata"]["name"]
    return {"name": name, "status": state, "error": next(iter(errors), None), "used": True}


def _lags(
    cluster: Cluster, states: Iterable[deployed_state.Served], token: str | None
) -> Iterator[tuple[deployed_state.Served, replication_lag.Lag | None]]:
    """What OPAs lack of the cluster's namespaces, if no sidecar reports the age of its data."""
    for state in states:
        if not cluster.sidecar.look_up and state.error is None:
            yield state, replication_lag.lag(cluster, state.opa, token)


def _expected_opas(objects: clients.Objects) -> int:
    """The least number of OPAs that have to be there."""
    deployment = objects.get("apps/v1", "Deployment", "opa", NAMESPACE) or {}
    return max(1, (deployment.get("spec") or {}).get("replicas") or 0)

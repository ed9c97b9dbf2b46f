"""The status of a deployment: what runs, what it serves, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.operations import drift, object_following, problems, remains, strategies
from fairlead.operations.strategies.base import Operation
from fairlead.policy.policy_set import PolicySet


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
    - `controllers`: see transient_access.controllers
    - `policies`: a list of {name, status, error, used}; see policy_status.policies
    - `data`: the ConfigMaps of data, as {name, status, error}
    - `orphans`: modules that OPAs serve though their source is gone, as {opa, module, usedBy}
    - `remains`: if nothing is deployed, sentences about what is left of an earlier deployment
    - `objects`: webhooks, guards and rights, as {kind, name, namespace, state, fields,
      failurePolicy}; see drift.Compared
    - `disabled`: the intents that `fairlead disable` disabled, as {intent, by, since, reason,
      until}
    - `certificates`: see certificate_status.certificates
    - `servers`: a list of {name, pid, restarts, running}
    - `problems`: sentences about everything that is not as it should be

    Raises FairleadError if the API server does not answer.
    """
    with Operation.begun(cluster, Progress()) as operation:
        config_map = operation.config_map
        described = strategies.described(operation).describe(config_map)
        deployed = described.rows["deployed"]
        left = [] if deployed else [*remains.of_cluster(operation.objects).sentences()]
    running = servers(cluster)
    return {
        "name": cluster.name,
        "cluster": cluster.kind,
        "kubeconfig": str(cluster.kubeconfig),
        "engine": described.engine,
        **described.rows,
        "remains": left,
        "intents": intents(config_map),
        "objects": documents(described.comparison),
        "disabled": [asdict(record) for record in described.disabled.records.values()],
        "servers": running,
        "problems": [
            *left,
            *problems.of_disabled(described.disabled),
            *described.problems,
            *object_following.problems(operation.objects),
            *problems.of_objects(described.comparison),
            *problems.of_certificates(described.dated),
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
        policies = PolicySet.deployed(config_map.get("data") or {}, drift.settings(config_map))
    except FairleadError:  # the comparison of webhooks says why
        return []
    return [
        {
            "name": instance.name,
            "enforcement": policies.settings.mode(instance.name),
            "kinds": sorted({kind.kind for request in instance.requests for kind in request.kinds}),
        }
        for instance in policies.active
    ]

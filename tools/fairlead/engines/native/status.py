"""The status of policies that objects of the cluster enforce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError
from fairlead.engines.native import disabling, record
from fairlead.operations import drift, problems
from fairlead.operations import status as statuses


def status(cluster: Cluster, config_map: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster's state, with the keys of fairlead.operations.status.status; there are no OPAs,
    sidecars and certificates. Raises FairleadError if the API server does not answer.
    """
    objects = cluster.objects()
    try:
        deployed = record.read(config_map)
        comparison = drift.Comparison(
            tuple(drift.compared(objects, manifest) for manifest in deployed.objects)
        )
        policies = {"status": "ok", "error": None}
    except FairleadError as error:
        comparison = drift.Comparison(error=str(error))
        policies = {"status": "error", "error": str(error)}
    disabled = disabling.read(objects)
    running = statuses.servers(cluster)
    rows = [{"name": config_map["metadata"]["name"], **policies, "used": True}]
    return {
        "name": cluster.name,
        "cluster": cluster.kind,
        "kubeconfig": str(cluster.kubeconfig),
        "deployed": True,
        "engine": record.engine_of(config_map),
        "sidecar": None,
        "opa": [],
        "sidecars": [],
        "access": [],
        "intents": statuses.intents(config_map),
        "policies": rows,
        "objects": statuses.documents(comparison),
        "disabled": [asdict(each) for each in disabled.records.values()],
        "certificates": [],
        "servers": running,
        "problems": [
            *problems.of_disabled(disabled),
            *problems.of_objects(comparison),
            *problems.of_servers(running),
        ],
    }

"""Says how far a workload in a cluster is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.analysis.place import WORKLOADS, kind_of


def available(workload: Mapping[str, Any]) -> int:
    """The pods that are available, of the present template; 0 until the cluster has looked at that.

    `workload` is a Deployment, a ReplicaSet or a StatefulSet as the API server has it.
    """
    status = workload.get("status") or {}
    if status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0):
        return 0
    counts = [status.get("availableReplicas") or 0]
    if workload["kind"] != "ReplicaSet":
        counts.append(status.get("updatedReplicas") or 0)
    return min(counts)


def asked(workload: Mapping[str, Any]) -> int:
    """The pods that the workload should have, as the API server has it."""
    count = workload["spec"].get(WORKLOADS[kind_of(workload)])
    return 1 if count is None else int(count)


def has_ended(job: Mapping[str, Any]) -> bool:
    """Whether a Job is complete, or has failed."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in conditions
    )

"""The cluster that tests use: named by environment variables, also for another process."""

from __future__ import annotations

import os

from fairlead.clusters import registry
from fairlead.clusters.registry import Target
from fairlead.common.errors import UsageError


def of_environment() -> Target:
    """The cluster that FAIRLEAD_CLUSTER, KIND_CLUSTER_NAME and FAIRLEAD_CONTEXT name, by
    default an embedded one. Raises UsageError for an unknown kind.
    """
    kind = os.environ.get("FAIRLEAD_CLUSTER") or "embedded"
    if kind not in registry.KINDS:
        raise UsageError(f"FAIRLEAD_CLUSTER: {kind!r} is not one of {', '.join(registry.KINDS)}")
    return registry.chosen(kind)


def environment(target: Target) -> dict[str, str]:
    """The environment variables by which `of_environment` finds the same cluster in
    another process.
    """
    variables = {
        "FAIRLEAD_CLUSTER": target.kind,
        "FAIRLEAD_CONTEXT": target.context,
        "KUBECONFIG": target.kubeconfig,
    }
    variables |= {"KIND_CLUSTER_NAME": target.name if target.kind == "kind" else None}
    return {name: str(value) for name, value in variables.items() if value}

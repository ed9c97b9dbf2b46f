"""The kinds that an API server serves, for the table of those that are known without a cluster."""

from __future__ import annotations

import json
import os
from typing import Any

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.progress import Progress
from fairlead.kube import api_paths, discovery
from fairlead.kube.clients import Objects


def pinned() -> str:
    """The table of an API server of the pinned version, which is started for it."""
    with BareCluster(f"kinds-{os.getpid()}") as cluster:
        cluster.start_control_plane(workloads=False, progress=Progress())
        return text(Objects(cluster.kubeconfig))


def text(objects: Objects) -> str:
    """The table as served_kinds.file() has it: for each group, for each kind, its
    plural and whether it has a namespace. It holds the kinds of all versions of Kubernetes' own
    groups.
    """
    versions = ["v1"]
    for group in objects.call("GET", "/apis", action="cannot read the API's groups")["groups"]:
        if group["name"].endswith(".k8s.io") or "." not in group["name"]:
            versions += [version["groupVersion"] for version in group["versions"]]
    table: dict[str, dict[str, Any]] = {}
    for version in versions:
        path = api_paths.of_version(version)
        answer = objects.call("GET", path, action=f"cannot read the resources of {version}")
        for kind in discovery.kinds(answer):
            table.setdefault(kind.group, {})[kind.name] = [kind.plural, kind.namespaced]
    lines = (
        f" {json.dumps(group)}: {{\n"
        + ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(kinds.items())
        )
        + "\n }"
        for group, kinds in sorted(table.items())
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"

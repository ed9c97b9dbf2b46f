"""The demo: creates sample pods on a real API server, and reports where they land or why they are
refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import paths, waiting, yaml_files
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.kube import clients, responses
from fairlead.kube.errors import Refused
from fairlead.settings.models import Settings

NODES = {"gpu": 1, "highmem": 2, "cheap": 2}
"""The number of nodes in each of the demo's pools."""


@dataclass(frozen=True)
class Row:
    """The outcome of one pod. `node` and `phase` are None if it was refused; `pool` is None if its
    namespace has none.
    """

    namespace: str
    pod: str
    pool: str | None
    node: str | None
    phase: str | None
    allowed: bool
    message: str


def run(cluster: Cluster, *, progress: Progress) -> list[dict[str, Any]]:
    """Create the objects of testdata/demo.yaml in order. Returns the outcome of every pod, as dicts
    of Row.

    Raises FairleadError if an admitted pod does not run within a minute.
    """
    label = Settings().namespace_label
    objects = cluster.objects()
    pools: dict[str, str | None] = {}
    submitted: dict[tuple[str, str], Mapping[str, Any]] = {}
    refused: list[Row] = []
    for document in yaml_files.read_yaml(paths.root() / "testdata" / "demo.yaml"):
        manifest = document.value
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        progress.update("demo", f"creating {kind} {name}")
        if kind == "Namespace":
            pools[name] = manifest["metadata"].get("labels", {}).get(label)
        try:
            objects.create(manifest)
        except Refused as error:
            if kind == "ServiceAccount" and error.status == 409:
                continue  # the controller has created it already
            if kind != "Pod" or error.status != 403:
                raise
            namespace = manifest["metadata"]["namespace"]
            refused.append(
                Row(namespace, name, pools[namespace], None, None, False, _plain(error.message))
            )
            continue
        if kind == "Pod":
            submitted[manifest["metadata"]["namespace"], name] = manifest
    progress.update("demo", "waiting until every pod runs")
    pods = waiting.until(
        lambda: _running(objects, list(pools)),
        deadline=60.0,
        what="all pods of the demo run",
        pause=0.1,
    )
    rows = [_row(pod, pools, submitted) for pod in pods] + refused
    progress.finish("demo", f"{len(pods)} pods run, {len(refused)} were refused")
    return [
        asdict(row)
        for row in sorted(rows, key=lambda row: (list(pools).index(row.namespace), not row.allowed))
    ]


def misplaced(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The pods of mapped namespaces that run on a node of another pool. The names of nodes begin
    with their pool.
    """
    return [
        f"{row['namespace']}/{row['pod']}"
        for row in rows
        if row["allowed"] and row["pool"] and not str(row["node"]).startswith(f"{row['pool']}-")
    ]


def _running(objects: clients.Objects, namespaces: Sequence[str]) -> list[dict[str, Any]] | None:
    """All pods of `namespaces` if they run and the Deployments are complete. Raises FairleadError
    otherwise.
    """
    deployments = [
        d for namespace in namespaces for d in objects.list("apps/v1", "Deployment", namespace)
    ]
    if any(d["status"].get("readyReplicas", 0) < d["spec"]["replicas"] for d in deployments):
        raise FairleadError("a Deployment lacks pods")
    pods = [pod for namespace in namespaces for pod in objects.list("v1", "Pod", namespace)]
    waiting_pods = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] != "Running"]
    if waiting_pods:
        raise FairleadError(f"not running: {', '.join(waiting_pods)}")
    return pods


def _row(
    pod: Mapping[str, Any],
    pools: Mapping[str, str | None],
    submitted: Mapping[tuple[str, str], Mapping[str, Any]],
) -> Row:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    pool = pools[namespace]
    node_selector = submitted.get((namespace, name), {}).get("spec", {}).get("nodeSelector")
    if pool is None:
        message = "the namespace has no pool: left alone"
    elif node_selector:
        message = "nodeSelector was the pool's already"
    else:
        message = "nodeSelector added"
    return Row(
        namespace, name, pool, pod["spec"]["nodeName"], pod["status"]["phase"], True, message
    )


def _plain(message: str) -> str:
    """The policy's part of a denial, without the API server's words around it."""
    return responses.DENIAL.split(message, maxsplit=1)[-1]

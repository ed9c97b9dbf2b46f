"""Starts a cluster and all that places pods in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from fairlead import sidecars, toolchain
from fairlead.clusters.embedded.placing import EmbeddedCluster
from fairlead.deploy import deploy
from fairlead.progress import Progress
from fairlead.settings import Settings

POOLS = ("pool1", "pool2", "pool3")
"""The node pools where neither settings nor flags name any."""


def default_nodes(settings: Settings, each: int = 1) -> dict[str, int]:
    """`each` nodes for every declared pool, or for each of POOLS."""
    return dict.fromkeys(settings.pools or POOLS, each)


@contextmanager
def started(
    name: str,
    settings: Settings,
    nodes: Mapping[str, int],
    *,
    replicas: int = 1,
    sidecar: str = sidecars.SYNC.name,
    progress: Progress,
) -> Iterator[EmbeddedCluster]:
    """A new cluster with nodes (pool -> how many), in which pods are placed; it ends with the block unless detached.

    It has as many OPAs as `replicas` says, each with a `sidecar` of its own. Raises UsageError where that is not to be
    had, FairleadError where the cluster runs already or does not come up; nothing of it is left then.
    """
    sidecars.SIDECARS[sidecar].command()
    programs = ("opa", "etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kwok")
    toolchain.ensure(programs, progress)
    with EmbeddedCluster(name) as cluster:
        cluster.start_control_plane(progress=progress)
        cluster.scale(replicas)
        labels = {pool: dict(settings.assignment(pool).node_selector) for pool in nodes if pool in settings.pools}
        with ThreadPoolExecutor(1) as pool:
            added = pool.submit(cluster.add_nodes, nodes, node_label=settings.node_label, labels=labels)
            deploy(cluster, settings, sidecar=sidecar, progress=progress)
            added.result()
        yield cluster

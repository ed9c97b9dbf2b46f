"""The cluster of engines that do without OPA."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.progress import Progress
from fairlead.kube.clients import Objects

_POOLS = ("pool1", "pool2", "pool3")
"""The pools of its nodes."""

_DECIDED = 60.0
"""Seconds for a request; each webhook that decides on it may take 30."""


@contextmanager
def bare(progress: Progress) -> Iterator[BareCluster]:
    """A new embedded cluster with nodes, and without OPA."""
    with BareCluster(f"verify-{secrets.token_hex(4)}") as cluster:
        cluster.start_control_plane(progress=progress)
        cluster.add_nodes(dict.fromkeys(_POOLS, 1))
        yield cluster


def api(cluster: BareCluster) -> Objects:
    """The cluster's API server, asked by its administrator."""
    return Objects(cluster.kubeconfig, timeout=_DECIDED)

"""A second API server beside that of an embedded cluster, with the same etcd."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from waits import DEADLINE

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from lab.bench import second_api_server as server


@contextmanager
def second_api_server(cluster: EmbeddedCluster, kubeconfig: Path) -> Iterator[None]:
    """Another API server like the first during the block. Writes an administrator's kubeconfig for
    it.
    """
    url = server.start(cluster, {}, deadline=DEADLINE)
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = url
    kubeconfig.write_text(yaml.safe_dump(document))
    try:
        yield
    finally:
        cluster.stop_server(server.NAME)

"""A second API server beside that of an embedded cluster, with the same etcd."""

from __future__ import annotations

from pathlib import Path

import yaml
from waits import DEADLINE

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from lab.bench import second_api_server


def start_second(cluster: EmbeddedCluster, kubeconfig: Path) -> None:
    """Start another API server like the first, and write an administrator's kubeconfig for it."""
    url = second_api_server.start(cluster, {}, deadline=DEADLINE)
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = url
    kubeconfig.write_text(yaml.safe_dump(document))

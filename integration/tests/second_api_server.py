"""A second API server beside that of an embedded cluster, with the same etcd."""

from __future__ import annotations

from pathlib import Path

import yaml
from waits import DEADLINE

from fairlead.clusters.embedded import ports
from fairlead.clusters.embedded.cluster import EmbeddedCluster


def start_second(cluster: EmbeddedCluster, kubeconfig: Path) -> None:
    """Start another API server like the first, and write an administrator's kubeconfig for it."""
    (port,) = ports.free_ports(1)
    url = f"https://{ports.HOST}:{port}"
    pid = cluster.servers()["kube-apiserver"]["pid"]
    argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    argv = [f"--secure-port={port}" if flag.startswith("--secure-port=") else flag for flag in argv]
    cluster.start_server("kube-apiserver-second", argv, ready=f"{url}/readyz", deadline=DEADLINE)
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = url
    kubeconfig.write_text(yaml.safe_dump(document))

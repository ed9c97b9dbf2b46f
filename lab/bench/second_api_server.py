"""A second API server beside that of an embedded cluster, with the same etcd."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.clusters.embedded import ports
from fairlead.clusters.embedded.bare_cluster import BareCluster
from lab.bench import processes

NAME = "kube-apiserver-second"


def start(cluster: BareCluster, further: Mapping[str, str], *, deadline: float) -> str:
    """Start another API server like the first, but with these flags; returns its URL. Raises
    FairleadError.
    """
    (port,) = ports.free_ports(1)
    url = f"https://{ports.HOST}:{port}"
    pid = processes.pids(cluster)["kube-apiserver"]
    program, *flags = processes.command(pid)
    values = dict(flag.removeprefix("--").split("=", 1) for flag in flags)
    values |= {**further, "secure-port": str(port)}
    argv = [program, *(f"--{name}={value}" for name, value in values.items())]
    cluster.start_server(NAME, argv, ready=f"{url}/readyz", deadline=deadline)
    return url

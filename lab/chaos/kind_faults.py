"""Faults of a KIND cluster: its servers are containers in its nodes, and Docker runs the nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.clusters.kind import KindCluster
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import CONTROLLER, NAMESPACE, OPA_PODS
from fairlead.kube import api_requests
from lab import containers
from lab.chaos.faults import Faults
from lab.chaos.schedule import Fault

_API_SERVER = "kube-apiserver"
_PKI = "/etc/kubernetes/pki/etcd"


@dataclass(frozen=True)
class _Server:
    """A container of a pod, and the node that it runs on. Docker's container of the node has the
    same name.
    """

    name: str
    node: str
    container: str


class KindFaults(Faults):
    """Signals to the containers' processes, sent inside of their nodes.

    After a container was killed, the kubelet of its node is restarted. Otherwise the kubelet would
    wait for up to five minutes before it starts a container that has ended several times
    (CrashLoopBackOff), and a run would test only that.
    """

    def __init__(self, cluster: KindCluster, progress: Progress) -> None:
        super().__init__(cluster.kubeconfig, progress)

    def _signal(self, fault: Fault) -> tuple[str, Callable[[], None]]:
        how, _, kind = fault.kind.partition(" ")
        servers = self._servers(kind)
        if not servers:
            raise FairleadError(f"no {kind} runs")
        chosen = servers if fault.pick is None else [servers[fault.pick % len(servers)]]
        pids = {server: self._pid(server) for server in chosen}
        names = ", ".join(server.name for server in chosen)

        def send(signal: str) -> None:
            for server, pid in pids.items():
                containers.execute(server.node, ["kill", f"-{signal}", pid])

        def go_on() -> None:
            for server, pid in pids.items():
                # Its liveness probe may have ended it meanwhile.
                containers.execute(server.node, ["sh", "-c", f"kill -CONT {pid} || true"])

        def start_again() -> None:
            for node in sorted({server.node for server in chosen}):
                containers.execute(node, ["systemctl", "restart", "kubelet"])

        if how == "kill":
            send("KILL")
            return names, start_again
        send("STOP")
        return names, go_on

    def _servers(self, kind: str) -> list[_Server]:
        """The running containers of a kind of server. Raises FairleadError if the API server cannot
        be asked.
        """
        namespace, labels = {
            _API_SERVER: ("kube-system", f"component={_API_SERVER}"),
            "controller": (NAMESPACE, f"app.kubernetes.io/name={CONTROLLER}"),
        }.get(kind, (NAMESPACE, OPA_PODS))
        with api_requests.explained(f"cannot list the pods of {kind}"):
            # Any: in the package's models every field may be None, also those that an API server
            # always sets.
            pods: list[Any] = self._core.list_namespaced_pod(namespace, label_selector=labels).items
        return [
            _Server(
                f"{pod.metadata.name}/{kind}",
                pod.spec.node_name,
                status.container_id.rpartition("/")[2],
            )
            for pod in sorted(pods, key=lambda pod: str(pod.metadata.name))
            for status in pod.status.container_statuses or ()
            if status.name == kind and status.state.running and not pod.metadata.deletion_timestamp
        ]

    def _pid(self, server: _Server) -> str:
        """The process id of the container in its node. Raises FairleadError if it has ended."""
        inspected = containers.execute(
            server.node, ["crictl", "inspect", "--output", "json", server.container]
        )
        try:
            pid = int(json.loads(inspected)["info"]["pid"])
        except (ValueError, KeyError, TypeError) as error:
            raise FairleadError(f"crictl shows no process of {server.name}") from error
        if not pid:
            # Another fault killed it, and it will be started again.
            raise FairleadError(f"{server.name} ended by itself")
        return str(pid)

    def _etcd(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        node = next((server.node for server in self._servers(_API_SERVER)), None)
        if node is None:
            raise FairleadError("no control plane runs")
        files = [f"--cacert={_PKI}/ca.crt", f"--cert={_PKI}/server.crt", f"--key={_PKI}/server.key"]
        files = [part for file in files for part in file.split("=")]
        url = f"https://127.0.0.1:2379/v3/kv/{what}"
        argv = [
            "curl",
            "--silent",
            "--show-error",
            "--fail",
            "--max-time",
            "5",
            *files,
            "--data",
            json.dumps(body),
            url,
        ]
        try:
            return dict(json.loads(containers.execute(node, argv)))
        except ValueError as error:
            raise FairleadError(f"etcd: {error}") from error

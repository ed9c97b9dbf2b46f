"""A cluster that Fairlead did not create, with pods of OPA that are reached as in any other.

It consists of an API server and simulated nodes. Behind the simulated pods run the real programs,
with the arguments of the pods and their Secrets mounted; a thread does the work of a kubelet. kwok
serves the ports and logs of the pods. Requests from the API server to a Service go through a proxy,
as in managed clusters (Konnectivity).
"""

from __future__ import annotations

import contextlib
import select
import socket
import socketserver
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from kubernetes import client
from urllib3.exceptions import HTTPError
from waits import until

from fairlead.clusters.embedded import ports, volume
from fairlead.clusters.embedded.bare_cluster import STAGES, BareCluster
from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import CONTROLLER, NAMESPACE, OPA
from fairlead.kube import clients
from fairlead.opa import containers
from fairlead.policy import policy_files
from fairlead.programs import toolchain

LOGGED = [f"2026-01-01T00:00:0{second}Z stdout F line {second} of {{}}\n" for second in range(3)]


CONTAINERS = {"opa": OPA, "sync": OPA, "controller": CONTROLLER}
"""The containers that run, with the Deployment of each."""


class Foreign(BareCluster):
    """The cluster. `reachable` says whether its API server reaches the pods of OPA through their
    Service.
    """

    reachable = True

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name)
        self.folder = folder
        self.opa_port, self.inner_port, self.sync_port, self.controller_port = ports.free_ports(4)
        # Any: in the package's models every field may be None, also those that an API server always
        # sets.
        self.core: Any = client.CoreV1Api()

    @property
    def context(self) -> str:
        """The name of its context in its kubeconfig."""
        return self._context()

    def log_of(self, container: str) -> Path:
        """The log of the container, as kwok serves it."""
        return self.folder / f"{container}.log"

    @contextmanager
    def up(self) -> Iterator[Foreign]:
        """Run the cluster during the block."""
        with self, _Proxy(self) as proxy:
            for container in CONTAINERS:
                self.log_of(container).write_text("".join(LOGGED).format(*[container] * 3))
            further = {"kube-apiserver": {"egress-selector-config-file": proxy.config(self.folder)}}
            further["kwok"] = {"config": self._kwok()}
            self.start_control_plane(further=further, progress=Progress())
            self.add_nodes({"pool1": 1, "pool2": 1})
            self.core = client.CoreV1Api(clients.connect(self.kubeconfig))
            with _Kubelet(self).working():
                yield self

    def _kwok(self) -> Path:
        """kwok's configuration: the stages of nodes, and the ports and logs of OPA's pods."""
        documents = list(yaml.safe_load_all(STAGES.read_text()))
        documents[0]["options"]["enableDebuggingHandlers"] = True
        there = {"selector": {"matchNamespaces": [NAMESPACE]}}
        targets = {
            containers.OPA_PORT: self.opa_port,
            containers.SYNC_PORT: self.sync_port,
            containers.CONTROLLER_PORT: self.controller_port,
        }
        forwards = [
            {"ports": [port], "target": {"address": ports.HOST, "port": to}}
            for port, to in targets.items()
        ]
        logs = [
            {"containers": [name], "logsFile": str(self.log_of(name)), "follow": True}
            for name in CONTAINERS
        ]
        served: dict[str, dict[str, Any]] = {
            "ClusterPortForward": {"forwards": forwards},
            "ClusterLogs": {"logs": logs},
        }
        for kind, what in served.items():
            version = "kwok.x-k8s.io/v1alpha1"
            documents.append(
                {
                    "apiVersion": version,
                    "kind": kind,
                    "metadata": {"name": "opa"},
                    "spec": {**there, **what},
                }
            )
        path = self.folder / "kwok.yaml"
        path.write_text(yaml.safe_dump_all(documents))
        return path


class _Kubelet:
    """Runs the programs of the newest pod of each Deployment, and mounts Secrets again when a pod
    is new or has changed.
    """

    def __init__(self, cluster: Foreign) -> None:
        self.cluster = cluster
        self.mounted = cluster.folder / "mounted"
        self._seen: dict[str, dict[str, str]] = {}
        self._running: dict[str, str] = {}

    @contextmanager
    def working(self) -> Iterator[None]:
        stop, problems = threading.Event(), []

        def work() -> None:
            while not stop.wait(0.05):
                try:
                    for deployment in (OPA, CONTROLLER):
                        self.synchronise(deployment)
                except Exception as error:  # told at the end: a thread's own error would be lost
                    problems.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            away = (FairleadError, client.ApiException, HTTPError, OSError)
            others = [e for e in problems if not isinstance(e, away)]
            assert others == []

    def synchronise(self, deployment: str) -> None:
        pods = self.cluster.core.list_namespaced_pod(
            NAMESPACE, label_selector=f"app.kubernetes.io/name={deployment}"
        ).items
        alive = [
            p for p in pods if not p.metadata.deletion_timestamp and p.status.phase == "Running"
        ]
        seen = {p.metadata.uid: p.metadata.resource_version for p in alive}
        if seen == self._seen.get(deployment, {}):
            return
        if not alive:
            for name, owner in CONTAINERS.items():
                if owner == deployment and name in self.cluster.servers():
                    self.cluster.stop_server(name)
            self._seen.pop(deployment)
            self._running.pop(deployment, None)
            return
        self.mount()
        newest = max(alive, key=lambda p: p.metadata.creation_timestamp)
        revision = newest.metadata.labels["pod-template-hash"] + newest.metadata.namespace
        if revision != self._running.get(deployment):
            self.run(newest)
            self._running[deployment] = revision
        self._seen[deployment] = seen

    def mount(self) -> None:
        secrets = {
            s.metadata.name: s.data
            for s in self.cluster.core.list_namespaced_secret(NAMESPACE).items
        }
        if not {"opa-tls", "opa-token"} <= secrets.keys():
            raise FairleadError("the Secrets are not there, or no more: a kubelet tries again")
        data = {
            name: {key: b64decode(value) for key, value in secrets[name].items()}
            for name in secrets
        }
        volume.write(self.mounted / "tls", data["opa-tls"])
        for name, keys in {"authz": policy_files.FILE_MODULES, "token": ("token",)}.items():
            volume.write(self.mounted / name, {key: data["opa-token"][key] for key in keys})

    def run(self, newest: Any) -> None:
        for container in newest.spec.containers:
            program = [sys.executable, "-m", "fairlead"]
            if container.name == "opa":
                program = [str(toolchain.ensure([toolchain.FAIRLEAD_OPA])[toolchain.FAIRLEAD_OPA])]
            argv = [*program, *map(self.here, container.args)]
            env = {variable.name: self.here(variable.value) for variable in container.env or ()}
            if container.name != "opa":
                kubeconfig = self.cluster.folder / f"{container.name}.kubeconfig"
                account = CONTAINERS[container.name]
                self.cluster.service_account_kubeconfig(NAMESPACE, account, kubeconfig)
                argv.append(f"--kubeconfig={kubeconfig}")
            if container.name in self.cluster.servers():
                self.cluster.stop_server(container.name)
            self.cluster.start_server(container.name, argv, env=env)

    def here(self, text: str) -> str:
        """A pod's argument, translated to the paths and addresses of this machine."""
        for old, new in {
            "/run/fairlead": str(self.mounted),
            "=:8443": f"={ports.HOST}:{self.cluster.opa_port}",
            "127.0.0.1:8181": f"{ports.HOST}:{self.cluster.inner_port}",
            "127.0.0.1:8444": f"{ports.HOST}:{self.cluster.sync_port}",
            "0.0.0.0:8444": f"{ports.HOST}:{self.cluster.sync_port}",
            "0.0.0.0:8445": f"{ports.HOST}:{self.cluster.controller_port}",
        }.items():
            text = text.replace(old, new)
        return text


class _Proxy(socketserver.ThreadingUnixStreamServer):
    """An HTTP CONNECT proxy that redirects connections to a Service to OPA."""

    daemon_threads = True

    def __init__(self, cluster: Foreign) -> None:
        self._folder = TemporaryDirectory()  # a socket's path may have but 107 characters
        super().__init__(f"{self._folder.name}/egress", _Connect)
        self.cluster = cluster

    def __enter__(self) -> _Proxy:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._folder.cleanup()

    def config(self, folder: Path) -> Path:
        transport = {"uds": {"udsName": self.server_address}}
        connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
        document = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }
        path = folder / "egress.yaml"
        path.write_text(yaml.safe_dump(document))
        return path


class _Connect(socketserver.StreamRequestHandler):
    server: _Proxy
    rbufsize = 0

    def handle(self) -> None:
        request = self.rfile.readline().split()
        while self.rfile.readline().strip():
            pass
        host, _, port = request[1].decode().rpartition(":")
        cluster = self.server.cluster
        if host != "localhost" and port == "443":
            if not cluster.reachable:
                self.wfile.write(b"HTTP/1.1 503 no route to the nodes\r\n\r\n")
                return
            host, port = ports.HOST, str(cluster.opa_port)
        try:
            target = socket.create_connection((host, int(port)))
        except OSError:
            self.wfile.write(b"HTTP/1.1 502 refused\r\n\r\n")
            return
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with target, contextlib.suppress(OSError):
            other = {self.connection: target, target: self.connection}
            while True:
                for ready in select.select(list(other), [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    other[ready].sendall(data)


@contextmanager
def started(name: str, folder: Path) -> Iterator[Foreign]:
    """A foreign cluster with two node pools and without Fairlead."""
    with Foreign(name, folder).up() as cluster:
        objects = cluster.objects()
        until(
            lambda: objects.get("v1", "ServiceAccount", "default", "default"),
            what="the cluster is there",
        )
        yield cluster
    assert not list(paths.state("x").parent.glob(f"context-{cluster.context}-*")), (
        "no credentials are left"
    )

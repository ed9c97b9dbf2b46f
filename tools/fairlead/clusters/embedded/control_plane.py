"""The command lines of the control plane's servers, and their health URLs.

The settings differ from those of a real cluster only where nobody can tell: there is one replica of
each, so no leader election, and no fsync, as the data are deleted with the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fairlead.clusters.embedded.pki import Pki
from fairlead.clusters.embedded.ports import HOST

ADMISSION = ("etcd", "kube-apiserver")
"""The servers that answer requests; each starts once the one before it is ready."""
WORKLOADS = ("kube-controller-manager", "kube-scheduler", "kwok")
"""The servers that run what the API server has stored."""
PROGRAMS = (*ADMISSION, *WORKLOADS)
PORTS = ("etcd", "etcd-peer", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kwok")
SERVICE_CIDR = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
# A /20 for each node: room for the pods of a load test. 2,048 nodes.
POD_CIDR, NODE_CIDR_MASK = "10.128.0.0/9", 20
LEASE_SECONDS = 12
"""How long a node's lease lasts: as long, after a crash, does a new kwok wait before it takes
the node over."""


@dataclass(frozen=True)
class ControlPlane:
    """All that the argument lists are made of; `ports` has one for each name in PORTS.

    `further` are more flags and their values, or other values, by server. Without `workloads`, only
    the servers of ADMISSION run.
    """

    programs: Mapping[str, Path]
    pki: Pki
    ports: Mapping[str, int]
    data: Path
    kwok_config: Path
    further: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    workloads: bool = True

    @property
    def url(self) -> str:
        """Where the API server is."""
        return self._url("kube-apiserver")

    def health(self, name: str) -> str:
        """The URL that answers 200 when the server `name` is ready."""
        path = {"etcd": "/health", "kube-apiserver": "/readyz"}.get(name, "/healthz")
        return self._url(name) + path

    def argv(self, name: str) -> list[str]:
        """How to start the server `name`, one of PROGRAMS."""
        arguments = {
            "etcd": self._etcd,
            "kube-apiserver": self._apiserver,
            "kube-scheduler": self._scheduler,
            "kube-controller-manager": self._controller_manager,
            "kwok": self._kwok,
        }[name]()
        arguments = {**arguments, **self.further.get(name, {})}
        return [str(self.programs[name]), *(f"--{key}={value}" for key, value in arguments.items())]

    def _url(self, name: str) -> str:
        return f"https://{HOST}:{self.ports[name]}"

    def _etcd(self) -> dict[str, object]:
        pki, client, peer = self.pki, self._url("etcd"), self._url("etcd-peer")
        return {
            "name": "etcd",
            "data-dir": self.data,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"etcd={peer}",
            "client-cert-auth": "true",
            "trusted-ca-file": pki.ca,
            "cert-file": pki.cert("etcd"),
            "key-file": pki.key("etcd"),
            "peer-client-cert-auth": "true",
            "peer-trusted-ca-file": pki.ca,
            "peer-cert-file": pki.cert("etcd"),
            "peer-key-file": pki.key("etcd"),
            "unsafe-no-fsync": "true",
            # A single member need not wait a second for votes before it leads.
            "heartbeat-interval": "50",
            "election-timeout": "250",
            "log-level": "warn",
        }

    def _apiserver(self) -> dict[str, object]:
        pki = self.pki
        return {
            "bind-address": HOST,
            "advertise-address": HOST,
            "secure-port": self.ports["kube-apiserver"],
            "tls-cert-file": pki.cert("kube-apiserver"),
            "tls-private-key-file": pki.key("kube-apiserver"),
            "client-ca-file": pki.ca,
            "etcd-servers": self._url("etcd"),
            "etcd-cafile": pki.ca,
            "etcd-certfile": pki.cert("etcd-client"),
            "etcd-keyfile": pki.key("etcd-client"),
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            # Aggregation, as everywhere; the scheduler and the controller manager read its
            # CA, too.
            "requestheader-client-ca-file": pki.cert("front-proxy-ca"),
            "requestheader-allowed-names": "front-proxy-client",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": pki.cert("front-proxy-client"),
            "proxy-client-key-file": pki.key("front-proxy-client"),
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": pki.signing_key,
            "service-account-signing-key-file": pki.signing_key,
            "service-cluster-ip-range": SERVICE_CIDR,
            # The Service `kubernetes` would point at loopback, which is not a valid endpoint.
            "endpoint-reconciler-type": "none",
            # At that address it finds kwok, which says at once that it has no logs.
            "kubelet-preferred-address-types": "ExternalDNS",
            "profiling": "false",
            # The plugin refuses pods in a namespace without the service account `default`, which
            # the controller manager makes.
            **({} if self.workloads else {"disable-admission-plugins": "ServiceAccount"}),
        }

    def _scheduler(self) -> dict[str, object]:
        return {**self._component("kube-scheduler"), "profiling": "false"}

    def _controller_manager(self) -> dict[str, object]:
        pki = self.pki
        return {
            **self._component("kube-controller-manager"),
            "use-service-account-credentials": "true",
            "service-account-private-key-file": pki.signing_key,
            "root-ca-file": pki.ca,
            # Signs what users and controllers request. The nodes are kwok's and request nothing,
            # and each of the other three signers would hold one of the 128 inotify instances
            # that Linux gives a user.
            "cluster-signing-kube-apiserver-client-cert-file": pki.ca,
            "cluster-signing-kube-apiserver-client-key-file": pki.key("ca"),
            "allocate-node-cidrs": "true",
            "cluster-cidr": POD_CIDR,
            "node-cidr-mask-size": NODE_CIDR_MASK,
            "service-cluster-ip-range": SERVICE_CIDR,
            # It asks for a token for each of its forty controllers before it starts them: 4 s at
            # the default of 20/s.
            "kube-api-qps": "200",
            "kube-api-burst": "400",
            # It would make one outside the cluster's folder.
            "flex-volume-plugin-dir": self.data.parent / "volume-plugins",
            "profiling": "false",
        }

    def _component(self, name: str) -> dict[str, object]:
        """What the scheduler and the controller manager have in common."""
        kubeconfig = self.pki.kubeconfig(name)
        return {
            "bind-address": HOST,
            "secure-port": self.ports[name],
            "tls-cert-file": self.pki.cert(name),
            "tls-private-key-file": self.pki.key(name),
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "leader-elect": "false",
        }

    def _kwok(self) -> dict[str, object]:
        return {
            "config": self.kwok_config,
            "kubeconfig": self.pki.kubeconfig("kwok"),
            "manage-all-nodes": "true",
            "node-lease-duration-seconds": LEASE_SECONDS,
            "server-address": f"{HOST}:{self.ports['kwok']}",
            "node-port": self.ports["kwok"],
            "tls-cert-file": self.pki.cert("kwok"),
            "tls-private-key-file": self.pki.key("kwok"),
        }

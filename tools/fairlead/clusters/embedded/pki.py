"""The keys, certificates and kubeconfigs of one cluster, each in a file."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from fairlead.clusters.embedded.ports import HOST
from fairlead.common import atomic_files
from fairlead.pki import certificates, key_files

VALID = timedelta(days=365)
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
# The identity of each client of the API server. Source: Kubernetes documentation, "PKI certificates
# and requirements". The simulated kubelets are not mentioned there; kwok.yaml has their rights.
_CLIENTS = {
    "admin": ("fairlead-admin", ["system:masters"]),
    "kube-scheduler": ("system:kube-scheduler", []),
    "kube-controller-manager": ("system:kube-controller-manager", []),
    "kwok": ("kwok-controller", []),
}


@dataclass(frozen=True)
class Pki:
    """The files in `folder`: name.crt and name.key for each `name`, and name.kubeconfig for
    clients of the API server.
    """

    folder: Path

    @property
    def ca(self) -> Path:
        """The certificate of the cluster's own CA; its key is beside it."""
        return self.folder / "ca.crt"

    @property
    def signing_key(self) -> Path:
        """The key that signs service account tokens."""
        return self.folder / "service-accounts.key"

    def cert(self, name: str) -> Path:
        """The certificate of `name`."""
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """The private key of `name`."""
        return self.folder / f"{name}.key"

    def kubeconfig(self, name: str) -> Path:
        """The kubeconfig of the client `name`."""
        return self.folder / f"{name}.kubeconfig"


def create(folder: Path, *, cluster: str, server: str, service_address: str) -> Pki:
    """Create all files for the API server at the URL `server`, whose address inside the
    cluster is `service_address`. Raises OSError.
    """
    folder.mkdir(mode=0o700)
    ca = certificates.CA.create(f"fairlead-{cluster}", VALID)
    ca_pair = certificates.KeyPair(ca.cert_pem, ca.key_pem)
    key_files.write_pair(ca_pair, folder, "ca")
    pki = Pki(folder)
    atomic_files.write_private(pki.signing_key, certificates.signing_key())
    # etcd is its own peer, and so a client too.
    etcd = ca.issue("etcd", dns=["localhost"], ips=[HOST], server=True, client=True, valid=VALID)
    key_files.write_pair(etcd, folder, "etcd")
    etcd_client = ca.issue("kube-apiserver-etcd-client", client=True, valid=VALID)
    key_files.write_pair(etcd_client, folder, "etcd-client")
    serving = ca.issue(
        "kube-apiserver", dns=_NAMES, ips=[HOST, service_address], server=True, valid=VALID
    )
    key_files.write_pair(serving, folder, "kube-apiserver")
    # A CA of its own: whoever has one of its certificates may act in anybody's name.
    front_proxy = certificates.CA.create(f"fairlead-{cluster}-front-proxy", VALID)
    atomic_files.write_private(pki.cert("front-proxy-ca"), front_proxy.cert_pem)
    front_proxy_client = front_proxy.issue("front-proxy-client", client=True, valid=VALID)
    key_files.write_pair(front_proxy_client, folder, "front-proxy-client")
    for name, (user, groups) in _CLIENTS.items():
        # The scheduler, the controller manager and kwok serve /healthz with the certificates by
        # which the API server knows them.
        pair = ca.issue(
            user,
            organizations=groups,
            dns=["localhost"],
            ips=[HOST],
            server=name != "admin",
            client=True,
            valid=VALID,
        )
        key_files.write_pair(pair, folder, name)
        credentials = {
            "client-certificate-data": _encoded(pair.cert_pem),
            "client-key-data": _encoded(pair.key_pem),
        }
        write_kubeconfig(pki.kubeconfig(name), cluster, server, ca.cert_pem, name, credentials)
    return pki


def write_kubeconfig(
    path: Path,
    cluster: str,
    server: str,
    ca_pem: bytes,
    user: str,
    credentials: dict[str, str],
    *,
    namespace: str = "default",
) -> None:
    """Write a kubeconfig with one context, which only its owner can read. Raises OSError."""
    # KUBECONFIG may list those of several clusters: of equal names, the first one would count.
    entry = f"{cluster}-{user}"
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster,
                "cluster": {"server": server, "certificate-authority-data": _encoded(ca_pem)},
            },
        ],
        "users": [{"name": entry, "user": credentials}],
        "contexts": [
            {
                "name": cluster,
                "context": {"cluster": cluster, "user": entry, "namespace": namespace},
            }
        ],
        "current-context": cluster,
    }
    atomic_files.write_private(path, yaml.safe_dump(document, sort_keys=False).encode())


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")

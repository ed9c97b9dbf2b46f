"""The files and arguments that OPA and its proxy are started with: the same in a pod and in the
embedded cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath

OPA_PORT = 8443
"""Where the proxy serves OPA's API to all others."""
INNER_PORT = 8181
"""Where OPA itself serves it, on loopback, to the proxy and the sidecar."""
SYNC_PORT = 8444
DRAIN = 95
"""Seconds that a pod answers on after it was told to end.

API servers close what they did not use for 90 s (IdleConnTimeout of net/http, which
k8s.io/apimachinery keeps).
"""
OPA_MEMORY = 512
"""MiB, the limit of OPA's container. An empty OPA takes 48, the labels of 100,000 namespaces
170, and six of the largest pods that API servers let through (fairlead.deployment.pod_sizes) at
once 140."""
OPA_ENVIRONMENT = {"GOMEMLIMIT": f"{OPA_MEMORY * 9 // 10}MiB"}
"""Go collects its garbage in time for the limit, instead of whenever the memory in use has
doubled."""
PROXY_MEMORY = 192
"""MiB, the limit of the proxy's container: 1,024 connections with a plain review each take it
90, large reviews 24."""
PROXY_ENVIRONMENT = {"GOMEMLIMIT": f"{PROXY_MEMORY * 9 // 10}MiB"}
LARGEST_REVIEW = 3 * 1024 * 1024
"""Bytes; etcd's limit of 1.5 MiB for an object, twice, as an update's review holds the old and
the new one."""


@dataclass(frozen=True)
class Liveness:
    """When a container is restarted: once `failures` looks in a row, one each `period`, have
    failed.

    A look asks for `path` at the pod's `port`. All times in seconds; `startup` is what it has until
    the first success.
    """

    port: int
    path: str
    period: int
    timeout: int
    failures: int
    startup: int


OPA_LIVENESS = Liveness(OPA_PORT, "/health", period=5, timeout=5, failures=3, startup=30)
"""An OPA that hangs is restarted within 20 s; one that is slow for some seconds, as under a
flood, is left alone."""


PROXY_LIVENESS = Liveness(OPA_PORT, "/live", period=5, timeout=5, failures=3, startup=30)
"""The proxy answers this by itself, whatever becomes of OPA."""


@dataclass(frozen=True)
class Files:
    """The folders in which a pod has its Secrets mounted."""

    tls: PurePath
    authz: PurePath
    token: PurePath

    @property
    def ca(self) -> PurePath:
        return self.tls / "ca.crt"

    @property
    def logs(self) -> PurePath:
        """Where the Secret of the decision logs' service is mounted, if there is one: `token`,
        `ca.crt`.
        """
        return self.tls.parent / "logs"


MOUNTED = Files(*(PurePosixPath("/run/fairlead") / name for name in ("tls", "authz", "token")))


def proxy_arguments(files: Files, opa: str, address: str) -> list[str]:
    """What `fairlead-proxy` is started with, to serve the OPA at `opa` as `address` (both
    host:port).
    """
    return [
        f"--listen={address}",
        f"--opa-url=https://{opa}",
        f"--opa-ca-file={files.ca}",
        f"--tls-cert-file={files.tls / 'tls.crt'}",
        f"--tls-private-key-file={files.tls / 'tls.key'}",
        f"--largest-review={LARGEST_REVIEW}",
    ]


def opa_arguments(files: Files, address: str, decision_logs: Sequence[str] = ()) -> list[str]:
    """What `opa` is started with, to serve at `address` (host:port); `decision_logs` say where
    its decisions go.
    """
    return [
        "run",
        "--server",
        f"--addr={address}",
        f"--tls-cert-file={files.tls / 'tls.crt'}",
        f"--tls-private-key-file={files.tls / 'tls.key'}",
        "--authentication=token",
        "--authorization=basic",
        f"--set=server.decoding.max_length={LARGEST_REVIEW}",
        # API servers send webhooks no gzip, and 3 KB of it unpack to 3 MB: none of more than a byte
        # is read.
        "--set=server.decoding.gzip.max_length=1",
        "--log-level=error",
        "--skip-version-check",
        *decision_logs,
        # The guards are the policies that no API call can replace; OPA sees the kubelet's swap of
        # the Secret's files.
        "--watch",
        str(files.authz / "authz.rego"),
        str(files.authz / "log.rego"),
    ]

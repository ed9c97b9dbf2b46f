"""How the container of OPA is run, in a pod and in the embedded cluster alike: memory, ports,
probes, environment, files and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath

OPA_PORT = 8443
"""The port at which OPA's plugin (tools/plugin) answers reviews, and serves OPA's API to everyone
but the sidecar."""
INNER_PORT = 8181
"""The port at which OPA itself serves its API, on loopback, to the sidecar."""
SYNC_PORT = 8444
CONTROLLER_PORT = 8445
"""The port at which `fairlead controller` serves its health, and answers reviews of objects."""
DRAIN = 95
"""Seconds for which a pod still answers after it was told to end.

API servers close connections that they have not used for 90 s (IdleConnTimeout of net/http, which
k8s.io/apimachinery does not change).
"""
UNROUTED = 3.0
"""Seconds until no node routes new connections to a pod that ends; nothing reports when that is
the case."""
OPA_MEMORY = 640
"""The memory limit of OPA's container, in MiB. An empty OPA takes 48, the labels of 100,000
namespaces 170, six of the largest pods that API servers accept (fairlead.deployment.review_limits)
at once 140, and 1,024 connections with a plain review each 90."""
OPA_ENVIRONMENT = {"GOMEMLIMIT": f"{OPA_MEMORY * 9 // 10}MiB", "GOGC": "200"}
"""Makes Go collect garbage when OPA has three times the memory that is in use, or in time for the
limit, instead of when that has doubled. At five times, an OPA with 10,000 namespaces took 300 MiB
under load.

GOMAXPROCS is left out. The containers have no CPU limit, so Go uses all processors of the node.
Where somebody sets a limit, Go follows it, since 1.25: OPA is built with 1.26 or newer."""
LARGEST_REVIEW = 3 * 1024 * 1024
"""Bytes: twice etcd's limit of 1.5 MiB for an object, as the review of an update holds the old and
the new object."""


@dataclass(frozen=True)
class Liveness:
    """When a container is restarted: if `failures` probes in a row, one each `period`, have failed.

    A probe requests `path` at the pod's `port`. All times are in seconds; `startup` is the time
    until the first success.
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
        """The folder with the Secret of the decision logs' service, if there is one: `token`,
        `ca.crt`.
        """
        return self.tls.parent / "logs"


MOUNTED = Files(*(PurePosixPath("/run/fairlead") / name for name in ("tls", "authz", "token")))


def opa_arguments(
    files: Files,
    address: str,
    inner_address: str,
    *,
    decision_logs: Sequence[str] = (),
) -> list[str]:
    """The arguments of `fairlead-opa`, which answers everyone at `address` and its sidecar at
    `inner_address` (both host:port). `decision_logs` are the arguments of its decision logs.
    """
    plugin = {
        "listen": address,
        "tls_cert_file": files.tls / "tls.crt",
        "tls_private_key_file": files.tls / "tls.key",
        "largest_review": LARGEST_REVIEW,
    }
    return [
        "run",
        "--server",
        f"--addr={inner_address}",
        *(f"--set=plugins.fairlead.{key}={value}" for key, value in plugin.items()),
        f"--tls-cert-file={files.tls / 'tls.crt'}",
        f"--tls-private-key-file={files.tls / 'tls.key'}",
        # By default, OPA watches these files with an inotify instance, and ends where the node
        # has none left: Linux gives a user 128.
        "--tls-cert-refresh-period=1s",
        "--authentication=token",
        "--authorization=basic",
        f"--set=server.decoding.max_length={LARGEST_REVIEW}",
        # API servers send no gzip to webhooks, and 3 KB of it unpack to 3 MB: OPA reads none that
        # unpacks to more than a byte.
        "--set=server.decoding.gzip.max_length=1",
        "--log-level=error",
        "--skip-version-check",
        *decision_logs,
        # No API call can replace these policies. OPA notices when the kubelet replaces the
        # Secret's files.
        "--watch",
        str(files.authz / "authz.rego"),
    ]

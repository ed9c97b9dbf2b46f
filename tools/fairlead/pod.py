"""The command lines of OPA and of its sidecar: the same in the deployed pod and in the embedded cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath

from fairlead.settings import Settings

OPA_PORT = 8443
SYNC_PORT = 8444
LARGEST_REVIEW = 3 * 1024 * 1024
"""Bytes; etcd's limit of 1.5 MiB for an object, twice, as an update's review holds the old and the new one."""


@dataclass(frozen=True)
class Files:
    """The folders in which a pod has its Secrets mounted."""

    tls: PurePath
    authz: PurePath
    token: PurePath

    @property
    def ca(self) -> PurePath:
        return self.tls / "ca.crt"


MOUNTED = Files(*(PurePosixPath("/run/fairlead") / name for name in ("tls", "authz", "token")))


def opa_arguments(files: Files, address: str) -> list[str]:
    """What `opa` is started with, to serve at `address` (host:port)."""
    return [
        "run",
        "--server",
        f"--addr={address}",
        f"--tls-cert-file={files.tls / 'tls.crt'}",
        f"--tls-private-key-file={files.tls / 'tls.key'}",
        "--authentication=token",
        "--authorization=basic",
        f"--set=server.decoding.max_length={LARGEST_REVIEW}",
        "--log-level=error",
        "--skip-version-check",
        # The guard is the one policy that no API call can replace; OPA sees the kubelet's swap of the Secret's files.
        "--watch",
        str(files.authz / "authz.rego"),
    ]


def opa_environment(files: Files, sync_address: str) -> dict[str, str]:
    """Where policies ask for a namespace that is not replicated yet; see policies/namespaces."""
    return {
        "FAIRLEAD_NAMESPACES_URL": f"https://{sync_address}/v1/namespaces",
        "FAIRLEAD_CA_FILE": str(files.ca),
    }


def sync_arguments(files: Files, settings: Settings, opa_address: str, listen: str) -> list[str]:
    """What `fairlead` is started with, as the sidecar of the OPA at `opa_address`."""
    label = settings.namespace_label
    # With a default pool every namespace matters; without one, only those that name a pool.
    selector: Sequence[str] = [] if settings.default_pool else [f"--namespace-selector={label},{label}!="]
    return [
        "sync",
        f"--opa-url=https://{opa_address}",
        f"--opa-ca-file={files.ca}",
        f"--opa-auth-token-file={files.token / 'token'}",
        *selector,
        f"--namespace-labels={label}",
        f"--health-endpoint={listen}",
        f"--tls-cert-file={files.tls / 'tls.crt'}",
        f"--tls-private-key-file={files.tls / 'tls.key'}",
    ]

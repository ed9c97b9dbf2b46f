"""`fairlead controller` as a process of an embedded cluster: its files, its arguments and its
probe."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from fairlead.clusters.embedded import ports, replica_plan
from fairlead.clusters.embedded.kubelet import Volume
from fairlead.clusters.embedded.replica_plan import Replica
from fairlead.clusters.embedded.server import Probe
from fairlead.deployment import access
from fairlead.deployment import component_flags as flags
from fairlead.deployment.names import ACCESS, scoped_secret
from fairlead.settings.access import Access

_PROGRAM = (sys.executable, "-m", "fairlead")


@dataclass(frozen=True)
class AccessServer:
    """The controller, with its token in a folder, or what ends access beside it; and the
    certificate of a replica of OPA.
    """

    address: str
    folder: Path
    tls: Path
    probe: Probe

    def controller(self, settings: Access, opa_url: str, kubeconfig: Path) -> list[str]:
        """The command that starts the controller."""
        arguments = access.arguments(
            settings, opa_url.rstrip("/"), self.address, tls=self.tls, token=self.folder
        )
        identity = f"{flags.REPLICA}={ACCESS}"
        return [*_PROGRAM, *arguments, f"{flags.KUBECONFIG}={kubeconfig}", identity]

    def ends(self, kubeconfig: Path) -> list[str]:
        """The command that starts the other one."""
        arguments = access.ends_arguments(self.address, tls=self.tls)
        return [*_PROGRAM, *arguments, f"{flags.KUBECONFIG}={kubeconfig}"]


def planned(folder: Path, replica: Replica, port: int) -> AccessServer:
    """One of both at this port."""
    address = f"{ports.HOST}:{port}"
    probe = replica_plan.probe(f"https://{address}{access.LIVENESS.path}", access.LIVENESS)
    return AccessServer(address, folder, Path(replica.files.tls), probe)


def volume(folder: Path) -> Volume:
    """The token as the kubelet mounts it."""
    return Volume(str(folder), scoped_secret(access.SCOPE), ["token"])

"""`fairlead controller` as a process of an embedded cluster: its files, its arguments and its
probe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead.clusters.embedded import ports, replica_plan
from fairlead.clusters.embedded.kubelet import Volume
from fairlead.clusters.embedded.replica_plan import Replica
from fairlead.clusters.embedded.server import Probe
from fairlead.deployment import component_flags as flags
from fairlead.deployment import controller
from fairlead.deployment.names import CONTROLLER, scoped_secret
from fairlead.settings.models import Settings

_PROGRAM = (sys.executable, "-m", "fairlead")


@dataclass(frozen=True)
class ControllerServer:
    """The controller, with its token in a folder, or what ends access beside it; and the
    certificate of a replica of OPA.
    """

    address: str
    folder: Path
    tls: Path
    probe: Probe

    def controller(
        self, settings: Settings, renewal: Sequence[str], webhook_url: str, kubeconfig: Path
    ) -> list[str]:
        """The command that starts the controller, with these flags for the renewal. API servers
        call OPA at `webhook_url`.
        """
        arguments = controller.arguments(
            settings,
            self.address,
            renewal,
            opa_url=webhook_url.rstrip("/"),
            tls=self.tls,
            token=self.folder,
        )
        return [
            *_PROGRAM,
            *arguments,
            f"{flags.KUBECONFIG}={kubeconfig}",
            f"{flags.REPLICA}={CONTROLLER}",
            f"{flags.WEBHOOK_URL}={webhook_url}",
            f"{flags.CONTROLLER_URL}=https://{self.address}",
        ]

    def ends(self, kubeconfig: Path) -> list[str]:
        """The command that starts the other one."""
        arguments = controller.ends_arguments(self.address, tls=self.tls)
        return [*_PROGRAM, *arguments, f"{flags.KUBECONFIG}={kubeconfig}"]


def planned(folder: Path, replica: Replica, port: int) -> ControllerServer:
    """One of both at this port."""
    address = f"{ports.HOST}:{port}"
    probe = replica_plan.probe(f"https://{address}{controller.LIVENESS.path}", controller.LIVENESS)
    return ControllerServer(address, folder, Path(replica.files.tls), probe)


def volume(folder: Path) -> Volume:
    """The token as the kubelet mounts it."""
    return Volume(str(folder), scoped_secret(controller.SCOPE), ["token"])

"""`fairlead shadow` as a process of an embedded cluster: its files, its arguments and its probe."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fairlead.clusters.embedded import replica_plan
from fairlead.clusters.embedded.server import Probe
from fairlead.common import atomic_files
from fairlead.common.progress import Progress
from fairlead.deployment import component_flags as flags
from fairlead.deployment import shadowing
from fairlead.deployment.credentials import Tls
from fairlead.programs import toolchain


@dataclass(frozen=True)
class ShadowServer:
    """The server at a URL, with its certificate in a folder."""

    address: str
    folder: Path
    probe: Probe

    @property
    def ca(self) -> Path:
        """The file of the CA that verifies it."""
        return self.folder / "ca.crt"

    def argv(self, opa_url: str, opa_ca: Path, kubeconfig: Path, progress: Progress) -> list[str]:
        """The command that starts it. Raises FairleadError if the matcher cannot be built."""
        return [
            sys.executable,
            "-m",
            "fairlead",
            *shadowing.arguments(
                self.address,
                opa_url.rstrip("/"),
                tls=self.folder,
                opa_ca=opa_ca,
                matcher=toolchain.ensure([toolchain.MATCHER], progress)[toolchain.MATCHER],
            ),
            f"{flags.KUBECONFIG}={kubeconfig}",
        ]


def planned(url: str, folder: Path, tls: Tls) -> ShadowServer:
    """The server at this URL, with its certificate written into the folder: no kubelet renews it,
    but each deployment does. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in tls.files.items():
        atomic_files.write_private(folder / name, content)
    liveness = shadowing.LIVENESS
    probe = replica_plan.probe(url.rstrip("/") + liveness.path, liveness)
    return ShadowServer(urlsplit(url).netloc, folder, probe)

"""The embedded cluster with OPA and its sidecar beside the control plane, where elsewhere a pod has them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairlead import certificates, kube, pod, toolchain
from fairlead.clusters.base import OpaServer
from fairlead.clusters.embedded import ports
from fairlead.clusters.embedded.cluster import Embedded
from fairlead.credentials import Credentials
from fairlead.progress import Progress
from fairlead.settings import NAMESPACE, Settings


class EmbeddedCluster(Embedded):
    """An embedded cluster that places pods; see fairlead.clusters.base.Cluster."""

    # No kubelet runs here: a pod of OPA would only seem to run. The Deployment is there, scaled to none.
    replicas = 0

    @property
    def webhook_url(self) -> str:
        """OPA's process on loopback."""
        return f"https://{self._address('opa')}/"

    def serve(self, settings: Settings, credentials: Credentials, authz: str, *, progress: Progress) -> None:
        """Bring the Secrets to where the pod would have them mounted, and start OPA and the sidecar unless they run."""
        files = self._mount(credentials, authz)
        running = self.servers()
        if "opa" not in running:
            program = toolchain.ensure(["opa"], progress)["opa"]
            progress.update("opa", "starting")
            argv = [str(program), *pod.opa_arguments(files, self._address("opa"))]
            environment = pod.opa_environment(files, self._address("sync"))
            url = f"https://{self._address('opa')}/health"
            self.start_server("opa", argv, env=environment, ready=url, ca=Path(files.ca))
            progress.update("opa", "serving")
        arguments = pod.sync_arguments(files, settings, self._address("opa"), self._address("sync"))
        if "sync" in running and arguments != self._remembered("sync-arguments"):
            self.stop_server("sync")
        if arguments != self._remembered("sync-arguments") or "sync" not in running:
            progress.update("sync", "starting")
            kubeconfig = self.path / "opa.kubeconfig"
            self.service_account_kubeconfig(NAMESPACE, "opa", kubeconfig)
            argv = [sys.executable, "-m", "fairlead", *arguments, f"--kubeconfig={kubeconfig}"]
            # An old sidecar may have loaded the new policies already; a new one must be there for who is looked up.
            url = f"https://{self._address('sync')}/health"
            self.start_server("sync", argv, ready=url, ca=Path(files.ca))
            self._remember("sync-arguments", arguments)

    def opas(self) -> Sequence[OpaServer]:
        """The one OPA, once it was started."""
        record = self.servers().get("opa")
        if record is None:
            return []
        return [OpaServer(f"https://{self._address('opa')}", Path(self._files().ca), record["pid"])]

    def namespaces(self) -> dict[str, Any]:
        """Every namespace as its API server has it, name -> object. Raises FairleadError."""
        found = kube.Objects(kube.connect(self.kubeconfig)).list("v1", "Namespace", None)
        return {namespace["metadata"]["name"]: namespace for namespace in found}

    def _mount(self, credentials: Credentials, authz: str) -> pod.Files:
        files = self._files()
        contents = {
            Path(files.tls): {
                "ca.crt": credentials.ca,
                "tls.key": credentials.key,
                "tls.crt": credentials.certificate,
            },
            Path(files.authz): {"authz.rego": authz.encode()},
            Path(files.token): {"token": credentials.token.encode()},
        }
        for folder, parts in contents.items():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, data in parts.items():
                path = folder / name
                if not path.exists() or path.read_bytes() != data:
                    certificates.write_private(path, data)
        return files

    def _files(self) -> pod.Files:
        mounted = self.path / "mounted"
        return pod.Files(mounted / "tls", mounted / "authz", mounted / "token")

    def _address(self, server: str) -> str:
        """Where `opa` or `sync` listens: chosen once, so that a restarted one is found again."""
        chosen = self._remembered("ports")
        if chosen is None:
            chosen = dict(zip(("opa", "sync"), self.free_ports(2), strict=True))
            self._remember("ports", chosen)
        return f"{ports.HOST}:{chosen[server]}"

    def _remembered(self, what: str) -> Any:
        try:
            return json.loads((self.path / f"{what}.json").read_text())
        except FileNotFoundError:
            return None

    def _remember(self, what: str, value: Any) -> None:
        certificates.write_private(self.path / f"{what}.json", json.dumps(value).encode())

"""Faults of an embedded cluster, whose servers are processes of this machine."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from fairlead.clusters.embedded import process_list
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import CONTROLLER
from lab.chaos.faults import Faults
from lab.chaos.schedule import Fault


class EmbeddedFaults(Faults):
    """Signals to processes; the supervisor starts again what was killed."""

    def __init__(self, cluster: BareCluster, progress: Progress) -> None:
        super().__init__(cluster.kubeconfig, progress)
        self._cluster = cluster

    def _signal(self, fault: Fault) -> tuple[str, Callable[[], None]]:
        how, _, kind = fault.kind.partition(" ")
        kind = CONTROLLER if kind == "controller" else kind
        servers = {
            name: record
            for name, record in self._cluster.servers().items()
            if (name == kind or name.startswith(f"{kind}-")) and record["pid"]
        }
        if not servers:
            raise FairleadError(f"no {kind} runs")
        names = (
            sorted(servers) if fault.pick is None else [sorted(servers)[fault.pick % len(servers)]]
        )

        def send(number: signal.Signals) -> bool:
            sent = [
                process_list.send(servers[name]["pid"], servers[name]["started"], number)
                for name in names
            ]
            return any(sent)

        def go_on() -> None:
            send(signal.SIGCONT)

        if not send(signal.SIGKILL if how == "kill" else signal.SIGSTOP):
            # Another fault killed it, and it will be started again.
            raise FairleadError(f"{', '.join(names)} ended by itself")
        return ", ".join(names), go_on

    def _etcd(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        pki = self._cluster.path / "pki"
        with requests.Session() as session:
            session.trust_env = False  # otherwise REQUESTS_CA_BUNDLE would override `verify`
            try:
                answer = session.post(
                    f"{self._etcd_url()}/v3/kv/{what}",
                    json=body,
                    verify=str(pki / "ca.crt"),
                    cert=(str(pki / "etcd-client.crt"), str(pki / "etcd-client.key")),
                    timeout=5,
                )
                answer.raise_for_status()
                return dict(answer.json())
            except (requests.RequestException, ValueError) as error:
                raise FairleadError(f"etcd: {error}") from error

    def _etcd_url(self) -> str:
        """The URL of etcd, from the arguments of its process, because no file records it."""
        pid = self._cluster.servers()["etcd"]["pid"]
        path = Path(f"/proc/{pid}/cmdline")
        if path.exists():
            arguments = path.read_text().split("\0")
        else:
            completed = subprocess.run(
                ["ps", "-ww", "-o", "args=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
                capture_output=True,
                text=True,
                check=False,
            )
            arguments = completed.stdout.split()
        flag = "--advertise-client-urls="
        urls = [argument.removeprefix(flag) for argument in arguments if argument.startswith(flag)]
        if not urls:
            raise FairleadError("etcd does not run")
        return urls[0]

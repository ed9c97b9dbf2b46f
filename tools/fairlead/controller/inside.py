"""A cluster as `fairlead controller` reaches it from inside: each OPA at its own address."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from fairlead.clusters.base import OpaServer, Server
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.deployment.credentials import SERVICE_NAMES, Credentials
from fairlead.deployment.names import CONTROLLER, NAMESPACE, OPA
from fairlead.deployment.sidecars import Sidecar
from fairlead.keeper import servers
from fairlead.kube import clients
from fairlead.policy.policy_set import PolicySet


class InsideCluster:
    """See fairlead.clusters.base.Cluster. It changes policies and what API servers enforce, and
    starts no servers.
    """

    kind = "controller"
    name = NAMESPACE
    examined = False
    usual = sidecars.DEFAULT

    def __init__(
        self,
        kubeconfig: Path | None,
        ca: Path,
        list_servers: Callable[[], list[servers.Server]],
        urls: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """`ca` is the file with the CA of OPA's certificate, `list_servers` lists OPAs and their
        sidecars (fairlead.keeper.servers). `urls` are those at which API servers call OPA and the
        controller, None if they call Services. Raises UsageError for an unusable kubeconfig.
        """
        self._kubeconfig = kubeconfig
        self._ca = ca
        self._list_servers = list_servers
        self._urls = urls

    @property
    def kubeconfig(self) -> Path:
        """There is none of an administrator. Raises UsageError."""
        raise UsageError("the controller has no kubeconfig of an administrator")

    def objects(self) -> clients.Objects:
        """See the protocol; changes have the field manager of the command line, so that either
        takes over what the other applied.
        """
        return clients.Objects(self._kubeconfig)

    def webhook_url(self, sidecar: Sidecar) -> str | None:
        """See the protocol."""
        return self._urls[0]

    def controller_url(self) -> str | None:
        """See the protocol."""
        return self._urls[1]

    @cached_property
    def sidecar(self) -> Sidecar:
        """That of the Deployment, when this object was first asked."""
        deployment = self.objects().get("apps/v1", "Deployment", OPA, NAMESPACE)
        spec = deployment["spec"]["template"]["spec"] if deployment else {"containers": []}
        names = {container["name"] for container in spec["containers"]}
        return next((one for name, one in sidecars.SIDECARS.items() if name in names), self.usual)

    def running(self) -> bool:
        """The controller runs in it."""
        return True

    def opas(self) -> Sequence[OpaServer]:
        """See the protocol."""
        return [
            OpaServer(
                f"https://{server.host}:{server.port}",
                self._ca,
                pod=server.host,
                engine=self.sidecar.engine,
                hostname=SERVICE_NAMES[2],
            )
            for server in self._list_servers()
            if not server.reports_ca
        ]

    def sidecars(self) -> Sequence[Server]:
        """See the protocol."""
        return [
            Server(
                f"https://{server.host}:{server.port}",
                self._ca,
                pod=server.host,
                hostname=SERVICE_NAMES[2],
            )
            for server in self._list_servers()
            if server.reports_ca
        ]

    def controllers(self) -> Sequence[Server]:
        """The controller does not ask itself."""
        return []

    def choose(self, sidecar: Sidecar) -> None:
        """See the protocol. Raises UsageError."""
        raise _cannot("change the sidecar")

    def serve(self, policies: PolicySet, credentials: Credentials, *, progress: Progress) -> None:
        """See the protocol. Raises UsageError."""
        raise _cannot("start servers")

    def refresh(self, secrets: Mapping[str, Mapping[str, bytes]]) -> None:
        """Nothing: kubelets mount what changed."""

    def restart(self, *, progress: Progress) -> None:
        """See the protocol. Raises UsageError."""
        raise _cannot("restart OPA")

    def logs(self, server: str, lines: int, follow: bool) -> Iterator[str]:
        """See the protocol. Raises UsageError."""
        raise _cannot("read logs")

    def servers(self) -> Mapping[str, Mapping[str, Any]]:
        """See the protocol."""
        return {}

    def retiring(self) -> bool:
        """See the protocol."""
        return False

    def retire(self) -> None:
        """See the protocol."""

    def stop(self) -> None:
        """See the protocol."""


def _cannot(what: str) -> UsageError:
    return UsageError(f"{CONTROLLER} cannot {what}: run `fairlead deploy`")

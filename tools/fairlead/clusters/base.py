"""The protocol of a cluster: everything that depends on the kind of cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fairlead.common.progress import Progress
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import OPA_ENGINE
from fairlead.deployment.sidecars import Sidecar
from fairlead.kube import clients
from fairlead.opa.api import OpaApi
from fairlead.policy.policy_set import PolicySet


@dataclass(frozen=True)
class Server:
    """A server beside the API server, such as a sidecar: its address, the file of the CA to verify
    it by, its pid if it runs on this machine, and the name of its pod. `hostname` is the one in its
    certificate, if that is not the one in `url`.
    """

    url: str
    ca: Path
    pid: int | None = None
    pod: str = ""
    hostname: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class OpaServer(Server):
    """An OPA. With another `engine`, a server in its place."""

    engine: str = OPA_ENGINE

    def api(self, token: str | None) -> OpaApi:
        """A client of it."""
        return OpaApi(self.url, ca=self.ca, hostname=self.hostname, token=token)


class Cluster(Protocol):
    """A cluster that Fairlead deploys into."""

    kind: str
    name: str

    examined: bool
    """Whether a deployment first checks the cluster, as others created it, or its nodes."""

    usual: Sidecar
    """What stands beside OPA, unless another was chosen."""

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator."""

    def objects(self) -> clients.Objects:
        """A new client of the cluster's objects, for one thread, by the kubeconfig as it is now.

        Raises UsageError if the API server cannot be reached.
        """

    def webhook_url(self, sidecar: Sidecar) -> str | None:
        """The URL at which the API server reaches OPA with this sidecar, or the server in its
        place; None for OPA's Service.
        """

    def controller_url(self) -> str | None:
        """The URL at which the API server reaches the controller; None for its Service."""

    @property
    def sidecar(self) -> Sidecar:
        """The kind of sidecar that was chosen, or the default of this kind of cluster."""

    def running(self) -> bool:
        """Whether the cluster runs, as far as that is known without a request."""

    def choose(self, sidecar: Sidecar) -> None:
        """Use this kind of sidecar from the next `serve` on. Raises UsageError if it cannot
        run there.
        """

    def serve(self, policies: PolicySet, credentials: Credentials, *, progress: Progress) -> None:
        """Make sure that OPA and its sidecar run with what was applied. Raises FairleadError
        if they do not come up.
        """

    def opas(self) -> Sequence[OpaServer]:
        """Every OPA, ready or not."""

    def sidecars(self) -> Sequence[Server]:
        """Every sidecar that reports its health; kube-mgmt does not."""

    def controllers(self) -> Sequence[Server]:
        """Every `fairlead controller` but those with --overdue."""

    def refresh(self, secrets: Mapping[str, Mapping[str, bytes]]) -> None:
        """Bring new contents of Secrets, name -> key -> data, into the pods' mounted files, as the
        kubelet does.

        The names are opa-token and opa-tls; a Secret that is left out stays as it is. A sidecar
        that reads its files only at its start is restarted, as by a rollout: OPA must accept the
        new credentials by then.
        """

    def restart(self, *, progress: Progress) -> None:
        """Restart every OPA with its sidecar, one pair after the other. Raises FairleadError
        if one does not come up.
        """

    def logs(self, server: str, lines: int, follow: bool) -> Iterator[str]:
        """The last `lines` lines of a server's log, in pieces; with `follow`, also what it writes
        from then on.

        `opa`, `sidecar` and `controller` mean all servers of that kind; if there are
        several, each line begins with its server's name. Raises UsageError if there is no such
        server (the error lists those that exist) or its log is gone; FairleadError.
        """

    def servers(self) -> Mapping[str, Mapping[str, Any]]:
        """The servers of this cluster, name -> {pid, restarts, ...}; empty if they are not known.

        A server that does not run has the pid None; on other machines, `running` is False.
        """

    def retiring(self) -> bool:
        """Whether something of another engine than the chosen one runs beside the cluster."""

    def retire(self) -> None:
        """Stop that, once nothing in the cluster calls it any more. Raises FairleadError."""

    def stop(self) -> None:
        """Stop what runs beside the cluster for it, once nothing in the cluster calls it any
        more. Raises FairleadError.
        """

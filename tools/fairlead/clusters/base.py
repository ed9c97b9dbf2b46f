"""The protocol of a cluster: everything that differs by the kind of cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fairlead.common.progress import Progress
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.sidecars import Sidecar
from fairlead.kube import clients
from fairlead.settings.models import Settings


@dataclass(frozen=True)
class OpaServer:
    """One OPA: where it listens, the file of the authority to verify it by, and its pid where this
    machine runs it.

    `pod` is the name of what holds it and its sidecar.
    """

    url: str
    ca: Path
    pid: int | None = None
    pod: str = ""


@dataclass(frozen=True)
class SidecarServer:
    """One sidecar that tells its health: where, by which authority, its pid where this machine
    runs it, and its pod.
    """

    url: str
    ca: Path
    pid: int | None = None
    pod: str = ""


class Cluster(Protocol):
    """A cluster that Fairlead deploys into."""

    kind: str
    name: str

    examined: bool
    """Whether a deployment looks first whether all that it takes is there: others made the
    cluster, or its nodes."""

    @property
    def kubeconfig(self) -> Path:
        """An administrator's."""

    def objects(self) -> clients.Objects:
        """A new client of its objects, for one thread, with the kubeconfig as it is now.

        Raises UsageError if the API server cannot be reached.
        """

    @property
    def webhook_url(self) -> str | None:
        """Where its API server reaches OPA; None for by its Service."""

    @property
    def replicas(self) -> int | None:
        """How many pods of OPA to run; None for as many as the settings say."""

    @property
    def sidecar(self) -> Sidecar:
        """The kind of sidecar that was chosen for it, or else what suits it."""

    def running(self) -> bool:
        """Whether it runs, as far as can be told without asking it."""

    def choose(self, sidecar: Sidecar) -> None:
        """Have this kind of sidecar from the next `serve` on. Raises UsageError where it cannot
        run there.
        """

    def serve(
        self,
        settings: Settings,
        credentials: Credentials,
        guards: Mapping[str, str],
        *,
        progress: Progress,
    ) -> None:
        """See that OPA and its sidecar run with what was applied. Raises FairleadError where
        they do not come up.
        """

    def opas(self) -> Sequence[OpaServer]:
        """Every OPA that is there, ready or not."""

    def sidecars(self) -> Sequence[SidecarServer]:
        """Every sidecar that tells its health; kube-mgmt does not."""

    def refresh(self, secrets: Mapping[str, Mapping[str, bytes]]) -> None:
        """Bring the contents of Secrets, name -> key -> data, to where the pods have them mounted,
        as the kubelet does.

        The names are opa-token and opa-tls; one that is left out stays as it is. A sidecar that
        reads its files but once is restarted for it, as a rollout would: OPA has to accept the new
        ones by then.
        """

    def restart(self, *, progress: Progress) -> None:
        """Restart every OPA with its sidecar, one pair after the other. Raises FairleadError
        where one stays away.
        """

    def namespaces(self) -> Mapping[str, Any]:
        """Every namespace as its API server has it, name -> object. Raises FairleadError."""

    def logs(self, server: str, lines: int, follow: bool) -> Iterator[str]:
        """The last `lines` lines that a server wrote, in pieces, and with `follow` what it writes
        from then on.

        `opa`, `proxy` and `sidecar` mean all of them: where there are several, each line begins
        with its server's name. Raises UsageError where it is no server, with the names of those
        there are, or where its log is gone; FairleadError.
        """

    def servers(self) -> Mapping[str, Mapping[str, Any]]:
        """What runs for this cluster, name -> {pid, restarts, ...}; empty where that is not ours to
        know.

        One that does not run now has the pid None, or elsewhere than on this machine `running`
        False.
        """

    def stop(self) -> None:
        """End what serves for this cluster beside it, once nothing there asks it any more.
        Raises FairleadError.
        """

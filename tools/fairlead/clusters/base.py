"""What differs by cluster, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fairlead.credentials import Credentials
from fairlead.progress import Progress
from fairlead.settings import Settings


@dataclass(frozen=True)
class OpaServer:
    """One OPA: where it listens, the file of the authority to verify it by, and its pid where this machine runs it."""

    url: str
    ca: Path
    pid: int | None = None


class Cluster(Protocol):
    """A cluster that Fairlead deploys into."""

    kind: str
    name: str

    @property
    def kubeconfig(self) -> Path:
        """An administrator's."""

    @property
    def webhook_url(self) -> str | None:
        """Where its API server reaches OPA; None for by its Service."""

    @property
    def replicas(self) -> int | None:
        """How many pods of OPA to run; None for as many as the settings say."""

    def serve(self, settings: Settings, credentials: Credentials, authz: str, *, progress: Progress) -> None:
        """See that OPA and its sidecar run with what was applied. Raises FairleadError where they do not come up."""

    def opas(self) -> Sequence[OpaServer]:
        """Every OPA that is there, ready or not."""

    def namespaces(self) -> Mapping[str, Any]:
        """Every namespace as its API server has it, name -> object. Raises FairleadError."""

    def log(self, server: str) -> Path:
        """Where the output of `opa`, `sync` (the sidecar) or another server goes."""

    def servers(self) -> Mapping[str, Mapping[str, Any]]:
        """What runs for this cluster, name -> {pid, restarts, ...}; empty where that is not ours to know."""

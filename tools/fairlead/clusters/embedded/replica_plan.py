"""Plans OPA's replicas: the names, addresses, files and probes of each OPA and sidecar.
cluster.py starts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.clusters.embedded import ports
from fairlead.clusters.embedded.server import Probe
from fairlead.deployment import sidecars
from fairlead.deployment.sidecars import Sidecar
from fairlead.opa import containers

KINDS = ("opa", "sidecar")
"""The kinds of server of each replica."""
BALANCER = "balancer"


@dataclass(frozen=True)
class Replica:
    """What a pod would hold: the names and addresses of an OPA and its sidecar, and the files
    of the Secrets.

    `other_sidecars` are the names that sidecars of other kinds would have in its place.
    """

    opa: str
    sidecar: str
    other_sidecars: list[str]
    address: str
    inner_address: str
    sidecar_address: str
    files: containers.Files

    @property
    def ca(self) -> Path:
        return Path(self.files.ca)

    def opa_url(self, path: str = "") -> str:
        """The URL at which everyone but the sidecar reaches OPA."""
        return f"https://{self.address}{path}"

    def probe(self, liveness: containers.Liveness) -> Probe:
        """The probe that a kubelet would use."""
        address = {
            containers.OPA_PORT: self.address,
            containers.SYNC_PORT: self.sidecar_address,
        }[liveness.port]
        return probe(f"https://{address}{liveness.path}", liveness)


def probe(url: str, liveness: containers.Liveness) -> Probe:
    """The probe that a kubelet would use for the server at this URL."""
    return Probe(
        url,
        period=liveness.period,
        timeout=liveness.timeout,
        failures=liveness.failures,
        startup=liveness.startup,
    )


def planned(sidecar: Sidecar, free_ports: Sequence[int]) -> dict[str, Any]:
    """A plan for as many replicas as there are ports for: one for the balancer, three for each.

    {"sidecar": its kind, "ports": [[OPA, the same on loopback, sidecar], ...], "balancer": port, or
    None for a single replica}
    """
    before, *free = free_ports
    return {
        "sidecar": sidecar.name,
        "ports": list(zip(free[::3], free[1::3], free[2::3], strict=True)),
        BALANCER: before if len(free) > 3 else None,
    }


def of(plan: Mapping[str, Any], sidecar: Sidecar, mounted: Path) -> list[Replica]:
    """The replicas of a plan, with this kind of sidecar; `mounted` is the folder of their files."""
    return [
        Replica(
            f"opa{suffix}",
            f"{sidecar.name}{suffix}",
            [f"{name}{suffix}" for name in sidecars.BESIDE_OPA if name != sidecar.name],
            f"{ports.HOST}:{port}",
            f"{ports.HOST}:{inner_port}",
            f"{ports.HOST}:{sidecar_port}",
            _files(mounted / f"opa{suffix}"),
        )
        for suffix, (port, inner_port, sidecar_port) in zip(
            _suffixes(len(plan["ports"])), plan["ports"], strict=True
        )
    ]


def in_place_of_opa(port: int, mounted: Path) -> Replica:
    """The one server that takes the place of OPA and its sidecar."""
    name, address = sidecars.SERVE.name, f"{ports.HOST}:{port}"
    return Replica(name, name, [], address, address, address, _files(mounted / name))


def _files(folder: Path) -> containers.Files:
    # Each replica has its own copy, as each pod's volumes are refreshed on their own.
    return containers.Files(folder / "tls", folder / "authz", folder / "token")


def _suffixes(count: int) -> list[str]:
    return [""] if count == 1 else [f"-{number}" for number in range(count)]

"""The sidecar of a cluster: sync unless another is deployed or named, and kube-mgmt in KIND."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.clusters.kind import KindCluster
from fairlead.clusters.remote import RemoteCluster
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.operations import deploy


class Told(Progress):
    """Keeps what a step ended with."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def finish(self, step: str, detail: str = "") -> None:
        self.lines.append(f"{step}: {detail}")


def having(cluster: RemoteCluster, *containers: str) -> RemoteCluster:
    """The cluster with a Deployment of these containers, or without one."""
    pod = SimpleNamespace(containers=[SimpleNamespace(name=name) for name in containers])
    deployment = SimpleNamespace(spec=SimpleNamespace(template=SimpleNamespace(spec=pod)))
    opa = SimpleNamespace(read=lambda: deployment if containers else None)
    cast(Any, cluster)._opa = opa
    return cluster


@pytest.fixture(params=["context", "kind"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> RemoteCluster:
    if request.param == "kind":
        return KindCluster("test")
    return RemoteCluster("prod", tmp_path / "kubeconfig")


def usual(cluster: RemoteCluster) -> str:
    return "kube-mgmt" if cluster.kind == "kind" else "sync"


def test_a_new_deployment_has_sync_and_in_kind_kube_mgmt(cluster: RemoteCluster) -> None:
    assert having(cluster).sidecar.name == usual(cluster)


@pytest.mark.parametrize("deployed", sidecars.BESIDE_OPA)
def test_a_deployed_sidecar_stays_and_one_line_says_how_to_change_it(
    cluster: RemoteCluster, deployed: str
) -> None:
    having(cluster, "opa", deployed)
    assert cluster.sidecar.name == deployed
    told = Told()
    deploy._tell_what_stays(cluster, told)
    default = usual(cluster)
    stays = f"sidecar: stays {deployed}, as deployed: --sidecar {default} changes it"
    assert told.lines == ([] if deployed == default else [stays])


def test_a_named_sidecar_is_taken(cluster: RemoteCluster) -> None:
    having(cluster, "opa", "kube-mgmt").choose(sidecars.SYNC)
    assert cluster.sidecar is sidecars.SYNC

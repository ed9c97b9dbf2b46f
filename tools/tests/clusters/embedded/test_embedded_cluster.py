"""Embedded clusters that do not start, and their ports; integration/tests use one that starts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tiny_servers import gone, supervisor_pid

from fairlead.clusters.embedded import ports, process_list
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.clusters.embedded.client import Supervisor
from fairlead.clusters.embedded.nodes import manifests
from fairlead.clusters.embedded.ports import free_ports
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.programs import toolchain


def test_free_ports_differ_and_can_be_had() -> None:
    numbers = free_ports(20)
    assert len(set(numbers)) == 20
    socket.create_server((ports.HOST, numbers[0])).close()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BareCluster:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "main.rego").touch()
    monkeypatch.setenv("FAIRLEAD_HOME", str(tmp_path))
    return BareCluster("test")


def fake(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    monkeypatch.setattr(toolchain, "ensure", lambda names, _progress: dict.fromkeys(names, program))


def test_a_control_plane_that_does_not_start_leaves_nothing(
    cluster: BareCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch, Path("/bin/false"))
    with pytest.raises(FairleadError, match=r"etcd ended \(exit code 1\)"):
        cluster.start_control_plane(progress=Progress())
    assert not cluster.path.exists()
    assert not cluster.down()


def test_ctrl_c_half_way_leaves_nothing(
    cluster: BareCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "etcd"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o700)
    fake(monkeypatch, program)
    pids: list[int | None] = []

    def interrupted(_supervisor: Supervisor, name: str, *_: object) -> None:
        pids.extend([cluster.servers()[name]["pid"], supervisor_pid(cluster.path)])
        raise KeyboardInterrupt

    monkeypatch.setattr(Supervisor, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster.start_control_plane(progress=Progress())
    assert len(pids) == 2
    assert all(pid and gone(pid) for pid in pids)
    assert not cluster.path.exists()


def test_a_dead_cluster_s_folder_is_removed(cluster: BareCluster) -> None:
    cluster.path.mkdir(parents=True)
    (cluster.path / process_list.FILE).write_text("{")
    assert not cluster.running()
    assert cluster.down()
    assert not cluster.path.exists()


def test_what_needs_a_running_cluster_says_how_to_start_it(
    cluster: BareCluster, tmp_path: Path
) -> None:
    for use in (
        lambda: cluster.add_nodes({"gpu": 1}),
        lambda: cluster.start_server("opa", ["opa"]),
        lambda: cluster.service_account_kubeconfig("fairlead", "opa", tmp_path / "kubeconfig"),
    ):
        with pytest.raises(FairleadError, match="`fairlead up --name test` starts it"):
            use()


@pytest.mark.parametrize("name", ["", "Upper", "-a", "a.b", "a/b", "..", "a" * 64])
def test_a_name_that_is_no_dns_label_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a cluster"):
        BareCluster(name)


def test_nodes_are_named_and_labelled_by_their_pool() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    nodes = manifests(
        {"GPU_A": 2, "cheap": 1},
        node_label="example.com/pool",
        labels={"GPU_A": {"zone": "a"}},
        taints={"GPU_A": [taint]},
    )
    assert [
        (node["metadata"]["name"], node["metadata"]["labels"]["example.com/pool"]) for node in nodes
    ] == [
        ("gpu-a-0", "GPU_A"),
        ("gpu-a-1", "GPU_A"),
        ("cheap-0", "cheap"),
    ]
    assert [node["metadata"]["labels"].get("zone") for node in nodes] == ["a", "a", None]
    assert [node["spec"] for node in nodes] == [{"taints": [taint]}, {"taints": [taint]}, {}]


def test_pools_whose_nodes_would_have_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two pools would have a node 'a-b-0'"):
        manifests({"a_b": 1, "A-b": 1}, node_label="agentpool", labels={}, taints={})

"""Faults in a KIND cluster: which command reaches which node, as a real API server reports the
pods."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
import yaml
from kind_world import NODE_IMAGE, World
from kubernetes import client

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.clusters.kind import KindCluster
from fairlead.common.progress import Progress
from fairlead.deployment.names import CONTROLLER, NAMESPACE
from fairlead.kube import clients
from lab.chaos.kind_faults import KindFaults
from lab.chaos.schedule import COMPACT, Episode, Fault

SILENT = Progress()


@pytest.fixture(scope="module")
def control_plane() -> Iterator[BareCluster]:
    """A cluster with two pods of OPA and one API server, as its nodes report them."""
    with BareCluster(f"test-faults-{os.getpid()}") as made:
        made.start_control_plane(progress=SILENT)
        objects = made.objects()
        core = client.CoreV1Api(clients.connect(made.kubeconfig))
        objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for namespace in (NAMESPACE, "kube-system"):
            account = {"name": "default", "namespace": namespace}
            objects.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        opa, server = {"app.kubernetes.io/name": "opa"}, {"component": "kube-apiserver"}
        add(objects, core, "opa-a", NAMESPACE, opa, "worker", ["opa", "sync"])
        add(objects, core, "opa-b", NAMESPACE, opa, "worker2", ["opa", "sync"])
        access = {"app.kubernetes.io/name": CONTROLLER}
        add(objects, core, "access-a", NAMESPACE, access, "worker", ["controller"])
        add(
            objects,
            core,
            "kube-apiserver-x",
            "kube-system",
            server,
            "control-plane",
            ["kube-apiserver"],
        )
        yield made


def add(
    objects: clients.Objects,
    core: client.CoreV1Api,
    name: str,
    namespace: str,
    labels: dict[str, str],
    node: str,
    runs: list[str],
) -> None:
    metadata = {"name": name, "namespace": namespace}
    spec = {"nodeName": node, "containers": [{"name": each, "image": "i"} for each in runs]}
    objects.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "labels": labels},
            "spec": spec,
        }
    )
    statuses = [
        {"name": each, "image": "i", "imageID": "", "ready": True, "restartCount": 0}
        | {"containerID": f"containerd://{name}-{each}", "state": {"running": {}}}
        for each in runs
    ]
    core.patch_namespaced_pod_status(name, namespace, {"status": {"containerStatuses": statuses}})


@pytest.fixture
def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, control_plane: BareCluster
) -> Iterator[World]:
    made = World(tmp_path)
    for key, value in made.environment.items():
        monkeypatch.setenv(key, value)
    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    made.set("admin.conf", yaml.safe_dump(document))
    made.set("endpoint", document["clusters"][0]["cluster"]["server"].removeprefix("https://"))
    made.set("images", NODE_IMAGE)
    made.set("pid", "4711")
    made.state.mkdir(parents=True)
    (made.state / "kubeconfig").write_bytes(control_plane.kubeconfig.read_bytes())
    yield made
    made.close()


def broken(world: World, *faults: Fault) -> tuple[KindFaults, list[list[str]]]:
    """Carries out the faults. Returns the commands that each node got, besides inspections."""
    made = KindFaults(KindCluster(world.name), SILENT)
    made.run([Episode(0, 1, (fault,)) for fault in faults], Event())
    calls = [call[1:] for call in world.calls("exec") if "crictl" not in call]
    return made, calls


def test_what_is_killed_ends_and_its_kubelet_starts_it_at_once(world: World) -> None:
    made, calls = broken(
        world,
        Fault("kill sync", 0, 0, 1),
        Fault("kill kube-apiserver", 0, 0, None),
        Fault("kill controller", 0, 0, None),
    )
    assert made.failed == []
    assert [fault.target for fault in made.broke] == [
        "opa-b/sync",
        "kube-apiserver-x/kube-apiserver",
        "access-a/controller",
    ]
    restart = ["systemctl", "restart", "kubelet"]
    assert calls == [
        *(["worker2", "kill", "-KILL", "4711"], ["worker2", *restart]),
        *(["control-plane", "kill", "-KILL", "4711"], ["control-plane", *restart]),
        *(["worker", "kill", "-KILL", "4711"], ["worker", *restart]),
    ]


def test_what_is_stopped_goes_on_afterwards(world: World) -> None:
    made, calls = broken(world, Fault("stop opa", 0, 0.1, None))
    assert [fault.target for fault in made.broke] == ["opa-a/opa, opa-b/opa"]
    nodes = ("worker", "worker2")
    assert calls[:2] == [[node, "kill", "-STOP", "4711"] for node in nodes]
    assert calls[2:] == [[node, "sh", "-c", "kill -CONT 4711 || true"] for node in nodes]


def test_etcd_is_compacted_from_its_node(world: World) -> None:
    made, calls = broken(world, Fault(COMPACT, 0, 0, None))
    assert [fault.target for fault in made.broke] == ["etcd"]
    asked, compacted = calls
    assert (asked[0], asked[1], asked[-1]) == (
        "control-plane",
        "curl",
        "https://127.0.0.1:2379/v3/kv/range",
    )
    assert compacted[-2:] == [
        '{"revision": 42, "physical": true}',
        "https://127.0.0.1:2379/v3/kv/compaction",
    ]


def test_what_runs_no_more_is_told_as_not_possible(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.chaos.faults._PATIENCE", 0.5)
    world.set("pid", "0")
    made, calls = broken(world, Fault("kill opa", 0, 0, 0))
    assert (made.broke, calls) == ([], [])
    assert "opa-a/opa ended by itself" in made.failed[0]

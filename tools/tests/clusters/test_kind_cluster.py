"""The life of a KIND cluster, with the real kind, a fake Docker engine and a real API server."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from kind_world import IMAGES, NODE_IMAGE, World

from fairlead.clusters import registry
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.clusters.kind import MARK, KindCluster
from fairlead.clusters.remote import of_context
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.programs import images
from fairlead.settings.models import Images

pytestmark = pytest.mark.lab

SILENT = Progress()


@pytest.fixture(scope="module")
def control_plane() -> Iterator[BareCluster]:
    """An API server without Fairlead, like that of a new cluster."""
    with BareCluster(f"test-kind-{os.getpid()}") as made:
        made.start_control_plane(progress=SILENT)
        made.add_nodes({"pool1": 1, "pool2": 1})
        yield made


@pytest.fixture
def objects(control_plane: BareCluster) -> clients.Objects:
    return control_plane.objects()


@pytest.fixture
def world(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    control_plane: BareCluster,
    objects: clients.Objects,
) -> Iterator[World]:
    """A fake engine in which each cluster of kind has the API server of `control_plane`."""
    made = World(tmp_path)
    for key, value in made.environment.items():
        monkeypatch.setenv(key, value)
    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    made.set("admin.conf", yaml.safe_dump(document))
    made.set("endpoint", document["clusters"][0]["cluster"]["server"].removeprefix("https://"))
    made.set("images", NODE_IMAGE, *IMAGES.values())
    yield made
    objects.delete("v1", "ConfigMap", MARK, "kube-public")
    made.close()


def test_a_cluster_is_made_once_and_removed_once(world: World, objects: clients.Objects) -> None:
    assert KindCluster(world.name).running() is False
    assert KindCluster(world.name).create(progress=SILENT) is True
    assert len(world.containers()) == 3
    for worker, pool in (("worker", "pool1"), ("worker2", "pool2")):
        assert any(
            f"agentpool={pool}" in line for line in world.lines(f"kubeadm.{world.name}-{worker}")
        )
    assert objects.get("v1", "ConfigMap", MARK, "kube-public")
    calls = len(world.calls("run"))

    assert KindCluster(world.name).create(progress=SILENT) is False
    assert len(world.calls("run")) == calls
    cluster = KindCluster(world.name)
    assert cluster.running() is True
    assert not cluster.objects().get("v1", "Namespace", "payments")
    assert cluster.kubeconfig.stat().st_mode & 0o077 == 0
    copy = of_context(None, cluster.kubeconfig).kubeconfig

    assert KindCluster(world.name).delete() is True
    assert not copy.parent.exists()
    assert not world.containers()
    assert not world.state.exists()
    assert KindCluster(world.name).delete() is False


def test_two_commands_at_once_make_one_cluster(world: World) -> None:
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: KindCluster(world.name).create(progress=SILENT), range(2)))
    assert sorted(made) == [False, True]
    assert len(world.calls("run")) == 3
    with ThreadPoolExecutor(2) as pool:
        removed = list(pool.map(lambda _: KindCluster(world.name).delete(), range(2)))
    assert sorted(removed) == [False, True]
    assert not world.state.exists()


def test_another_checkout_knows_it_by_its_mark(world: World) -> None:
    KindCluster(world.name).create(progress=SILENT)
    shutil.rmtree(world.state)
    assert KindCluster(world.name).running() is True
    assert KindCluster(world.name).objects().get("v1", "Namespace", "kube-system")


def test_one_without_the_mark_is_somebody_elses(world: World, objects: clients.Objects) -> None:
    KindCluster(world.name).create(progress=SILENT)
    objects.delete("v1", "ConfigMap", MARK, "kube-public")
    # its containers are those that were noted down
    assert KindCluster(world.name).running() is True

    world.add_containers("control-plane", "worker")  # in place of ours
    with pytest.raises(UsageError, match=r"was not made by Fairlead: .*KIND_CLUSTER_NAME"):
        KindCluster(world.name).delete()
    assert len(world.containers()) == 2


def test_one_that_is_stopped_can_be_removed_all_the_same(world: World) -> None:
    KindCluster(world.name).create(progress=SILENT)
    world.set("admin.conf")
    world.set("endpoint", "127.0.0.1:1")
    assert KindCluster(world.name).delete() is True
    assert not world.containers()


def test_who_forgets_the_kind_of_cluster_is_told_of_the_one_that_runs(world: World) -> None:
    KindCluster(world.name).create(progress=SILENT)
    done = world.fairlead("rotate", "cert", "--name", "nowhere")
    assert done.returncode == 2
    assert "no cluster 'nowhere' is running" in done.stderr
    assert f"`--cluster kind --name {world.name}`" in done.stderr
    assert "`fairlead up --name nowhere`" in done.stderr
    KindCluster(world.name).delete()
    assert "--cluster kind" not in world.fairlead("rotate", "cert", "--name", "nowhere").stderr


def test_where_nothing_is_deployed_status_says_so(world: World) -> None:
    KindCluster(world.name).create(progress=SILENT)
    done = world.fairlead("status", "--cluster", "kind")
    assert done.returncode == 1
    assert "not deployed: " in done.stderr
    assert "`fairlead deploy`" in done.stderr
    state = json.loads(world.fairlead("status", "--cluster", "kind", "-o", "json").stdout)
    assert (state["deployed"], state["opa"], state["policies"]) == (False, [], [])


def test_up_makes_it_and_loads_the_images(world: World) -> None:
    for _ in range(2):
        done = world.fairlead(
            "up", "--cluster", "kind", "--no-deploy", "--sidecar", "sync", "-o", "json"
        )
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert (answer["name"], answer["cluster"]) == (world.name, "kind")
        assert answer["kubeconfig"] == str(world.state / "kubeconfig")
    assert "is running already" in done.stderr
    assert world.calls("save")[0][-2:] == [IMAGES["OPA_IMAGE"], IMAGES["FAIRLEAD_IMAGE"]]
    assert not world.calls("build"), "another image than the default is taken as it is"
    done = world.fairlead("down", "--cluster", "kind")
    assert done.returncode == 0, done.stderr
    assert not world.containers()


def test_the_sidecars_image_is_built_where_it_is_not_of_these_sources(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAIRLEAD_IMAGE")
    world.environment["FAIRLEAD_IMAGE"] = ""
    world.set("images", NODE_IMAGE, *IMAGES.values(), Images().fairlead)  # of an earlier version
    arguments = ("up", "--cluster", "kind", "--no-deploy", "--sidecar", "sync")
    for _ in range(2):
        done = world.fairlead(*arguments)
        assert done.returncode == 0, done.stderr
        assert len(world.calls("build")) == 1
    with monkeypatch.context() as changed:
        changed.setattr(images, "_SIDECAR_SOURCES", ("requirements.txt",))
        assert not images.is_current(Images().fairlead)
    assert images.is_current(Images().fairlead)


@pytest.mark.parametrize("checkout", ["this", "another"])
def test_its_context_is_that_of_a_kind_cluster(world: World, tmp_path: Path, checkout: str) -> None:
    cluster = KindCluster(world.name)
    cluster.create(progress=SILENT)
    copy = tmp_path / "config"
    copy.write_text(cluster.kubeconfig.read_text())
    if checkout == "another":
        shutil.rmtree(cluster.path)
    target = registry.chosen("context", None, f"kind-{world.name}", copy)
    assert registry.recognized(target) == registry.Target("kind", world.name)
    down = world.fairlead("down", "--context", f"kind-{world.name}", "--kubeconfig", str(copy))
    assert down.stderr.splitlines() == [
        f"context kind-{world.name} leads to the KIND cluster {world.name}, which Fairlead made",
        f"{world.name} was removed",
    ]
    assert world.containers() == []


def test_what_became_of_it_is_told_when_a_command_fails(world: World) -> None:
    cluster = KindCluster(world.name)
    assert registry.fate(cluster) == f"{world.name} was removed"
    cluster.create(progress=SILENT)
    assert registry.fate(cluster) == (
        f"{world.name} is still there: run the command again to go on, or "
        f"`fairlead down --cluster kind --name {world.name}` to remove it"
    )

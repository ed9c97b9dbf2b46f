"""Errors of KIND clusters, with the real kind and a fake Docker engine; nothing is left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from kind_world import IMAGES, NODE_IMAGE, World

from fairlead.clusters.kind import KindCluster
from fairlead.common import paths, waiting
from fairlead.common.errors import FairleadError, InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.policy.fairlead_yaml import load
from fairlead.settings.images import IMAGE_VARIABLES
from fairlead.settings.models import Images, Settings

pytestmark = pytest.mark.lab

SILENT = Progress()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path)
    for key, value in made.environment.items():
        monkeypatch.setenv(key, value)
    yield made
    made.close()


def settings() -> Settings:
    """The settings of the environment, which name the images."""
    return load()


def cluster(world: World, sidecar: sidecars.Sidecar = sidecars.KUBE_MGMT) -> KindCluster:
    made = KindCluster(world.name)
    made.choose(sidecar)
    return made


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a.b", "a b", "a" * 51, "../x"])
def test_a_name_that_kind_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="KIND_CLUSTER_NAME"):
        KindCluster(name)


@pytest.mark.parametrize("command", [("up", "--cluster", "kind"), ("down", "--cluster", "kind")])
@pytest.mark.parametrize(
    ("engine", "words"),
    [("stopped", "start"), ("denied", "no right"), ("absent", "install")],
)
def test_an_engine_that_cannot_be_used_is_told_in_a_line(
    world: World, command: tuple[str, ...], engine: str, words: str
) -> None:
    if engine == "absent":
        world.environment["PATH"] = str(world.engine)
    else:
        world.set("engine", engine)
    done = world.fairlead(*command)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr.lower()
    assert not world.state.exists()


def test_the_projects_configuration_has_one_control_plane_and_a_worker_in_each_of_two_pools() -> (
    None
):
    document = yaml.safe_load((paths.root() / "integration" / "kind.yaml").read_text())
    nodes = document.pop("nodes")
    assert document == {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4"}
    workers = [node["labels"] for node in nodes if node["role"] == "worker"]
    assert workers == [{"agentpool": "pool1"}, {"agentpool": "pool2"}]
    assert [node for node in nodes if node["role"] != "worker"] == [{"role": "control-plane"}]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("labels:", "lables:", "field lables not found"),
        ("role: worker", "role: donkey", '"donkey" is not a valid node role'),
        ("v1alpha4", "v1", "unknown apiVersion"),
    ],
)
def test_a_configuration_that_kind_does_not_take_is_told_in_its_words(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, words: str
) -> None:
    path = tmp_path / "kind.yaml"
    path.write_text((paths.root() / "integration" / "kind.yaml").read_text().replace(old, new))
    monkeypatch.setenv("KIND_CONFIG", str(path))
    with pytest.raises(FairleadError, match=words):
        cluster(world).create(progress=SILENT)
    assert not world.containers()
    assert not world.state.exists()


def test_a_configuration_that_is_not_there_is_told_by_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIND_CONFIG", "nowhere.yaml")
    with pytest.raises(InputError, match=r"^nowhere\.yaml: .*KIND_CONFIG"):
        cluster(world).create(progress=SILENT)


def test_an_image_for_nodes_that_is_nowhere_is_told_with_its_variable(world: World) -> None:
    world.set("images")
    with pytest.raises(UsageError, match=f"no image {NODE_IMAGE} .* KIND_NODE_IMAGE"):
        cluster(world).create(progress=SILENT)
    assert not world.calls("run")
    assert not world.state.exists()


def test_a_cluster_of_that_name_that_is_somebody_elses_is_left_alone(world: World) -> None:
    world.add_containers("control-plane", "worker")
    before = world.containers()
    actions: tuple[Callable[[], object], ...] = (
        lambda: cluster(world).create(progress=SILENT),
        cluster(world).running,
        cluster(world).delete,
    )
    for action in actions:
        with pytest.raises(UsageError, match="KIND_CLUSTER_NAME"):
            action()
    assert world.containers() == before
    assert not world.state.exists()


def test_what_a_killed_command_left_is_removed(world: World) -> None:
    world.add_containers("control-plane")
    world.state.mkdir(parents=True)
    (world.state / "begun").touch()
    assert cluster(world).running() is False
    assert cluster(world).delete() is True
    assert not world.containers()
    assert not world.state.exists()
    assert cluster(world).delete() is False


def test_what_fails_half_way_leaves_nothing(world: World) -> None:
    world.set("run", "fail")
    with pytest.raises(FairleadError, match="no space left on device"):
        cluster(world).create(progress=SILENT)
    assert world.calls("run")
    assert not world.containers()
    assert not world.state.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_interrupted_leaves_neither_containers_nor_processes(
    world: World, number: signal.Signals
) -> None:
    world.set("run", "hang")
    process = world.start("up", "--cluster", "kind")
    hung = world.hangs()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    *_, interrupted, fate = errors.splitlines()
    assert interrupted == "error: interrupted"
    assert fate == f"{world.name} was removed"
    assert not world.containers()
    assert not world.state.exists()
    assert not any(map(_runs, hung))


def test_what_a_kill_left_is_removed_by_down(world: World) -> None:
    world.set("run", "hang")
    process = world.start("up", "--cluster", "kind")
    hung = world.hangs()
    process.kill()
    process.communicate()
    waiting.until(
        lambda: not any(map(_runs, hung)), deadline=30, what="what kind started has ended"
    )
    assert len(world.containers()) == 3
    done = world.fairlead("down", "--cluster", "kind")
    assert done.returncode == 0, done.stderr
    assert not world.containers()
    assert not world.state.exists()


@pytest.mark.parametrize(
    ("sidecar", "images"),
    [
        (sidecars.KUBE_MGMT, ["opa:1", "sync:1", "kube-mgmt:1"]),
        (sidecars.SYNC, ["opa:1", "sync:1"]),
    ],
    ids=["kube-mgmt", "sync"],
)
def test_images_of_the_engine_are_loaded_as_they_are(
    world: World, sidecar: sidecars.Sidecar, images: list[str]
) -> None:
    world.add_containers("control-plane", "worker")
    world.set("images", *images)
    cluster(world, sidecar).load_images(settings(), progress=SILENT)
    assert not world.calls("pull")
    (saved,) = world.calls("save")
    assert saved[-len(images) :] == images
    loaded = [call for call in world.calls("exec") if "import" in call]
    assert {node for call in loaded for node in call if node in world.containers()} == set(
        world.containers()
    )


def test_the_image_that_no_registry_has_is_built_where_the_engine_has_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add_containers("control-plane")
    world.set("images", "opa:1", "kube-mgmt:1")
    monkeypatch.delenv("FAIRLEAD_IMAGE")
    cluster(world, sidecars.KUBE_MGMT).load_images(settings(), progress=SILENT)
    (built,) = world.calls("build")
    assert Images().fairlead in built
    assert world.calls("save")[0][-3:] == ["opa:1", Images().fairlead, "kube-mgmt:1"]


def test_images_that_the_engine_lacks_are_pulled(world: World) -> None:
    world.add_containers("control-plane")
    world.set("images", "opa:1", "sync:1")
    world.set("registry", "kube-mgmt:1")
    cluster(world).load_images(settings(), progress=SILENT)
    assert [call[-1] for call in world.calls("pull")] == ["kube-mgmt:1"]
    assert world.calls("save")[0][-3:] == ["opa:1", "sync:1", "kube-mgmt:1"]


@pytest.mark.parametrize(
    ("variable", "sidecar", "way_out"),
    [
        ("OPA_IMAGE", sidecars.KUBE_MGMT, ""),
        ("KUBE_MGMT_IMAGE", sidecars.KUBE_MGMT, "--sidecar sync"),
        ("FAIRLEAD_IMAGE", sidecars.SYNC, "make image"),
    ],
)
def test_an_image_that_is_nowhere_is_told_with_its_variable(
    world: World, variable: str, sidecar: sidecars.Sidecar, way_out: str
) -> None:
    world.add_containers("control-plane")
    world.set("images", *(image for name, image in IMAGES.items() if name != variable))
    with pytest.raises(UsageError) as error:
        cluster(world, sidecar).load_images(settings(), progress=SILENT)
    message = str(error.value)
    assert f"no image {IMAGES[variable]} " in message
    assert f"set {variable} " in message
    assert way_out in message
    assert len(message.splitlines()) == 1
    assert not world.calls("save")


def test_the_pull_policies_never_and_always_are_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add_containers("control-plane")
    world.set("registry", *IMAGES.values())
    monkeypatch.setenv(IMAGE_VARIABLES["pull_policy"], "Always")
    cluster(world).load_images(settings(), progress=SILENT)
    monkeypatch.setenv(IMAGE_VARIABLES["pull_policy"], "Never")
    with pytest.raises(UsageError, match="Never"):
        cluster(world).load_images(settings(), progress=SILENT)
    assert not world.calls("pull")
    assert not world.calls("save")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False

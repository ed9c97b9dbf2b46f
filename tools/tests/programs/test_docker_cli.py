"""What stops Docker is told in one line, and what was started in it ends with us.

The program docker is a script here, which says what Docker's own said: no engine is needed, and
none is touched.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.common import paths, waiting
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.programs import docker as docker_cli
from fairlead.programs import images, toolchain
from fairlead.programs.toolchain import programs, recipe
from lab import containers, docker_e2e, e2e

DEADLINE = 30  # seconds

# What `docker version` says of versions 20.10 to 29.
STOPPED = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon "
    "running?",
    "failed to connect to the docker API at unix:///var/run/docker.sock; check if the path is "
    "correct and if the "
    "daemon is running: dial unix /var/run/docker.sock: connect: no such file or directory",
)
DENIED = (
    "Got permission denied while trying to connect to the Docker daemon socket at "
    "unix:///var/run/docker.sock: "
    'Get "http://%2Fvar%2Frun%2Fdocker.sock/v1.24/version": dial unix /var/run/docker.sock: '
    "connect: permission denied",
    "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock",
)
CLASSIC = (
    "Sending build context to Docker daemon  1.83MB",
    "Step 1/2 : FROM base",
    "Step 2/2 : RUN  make   it",
    "\x1b[91mkubectl: compiling 25%\x1b[0m",
)
BUILDKIT = (
    "#5 [build 2/4] RUN  make   it",
    "#5 12.34 kubectl: compiling 25% (30 s so far)",
    "#6 exporting to image",
)

Docker = Callable[[str], Path]


class Told(Progress):
    def __init__(self) -> None:
        self.heard: list[tuple[str, str, int, int]] = []

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        self.heard.append((name, state, done, total))


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """Puts a shell script on PATH as docker; the file returned holds the arguments of each call,
    one call a line.
    """
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    for name in (
        "BASE_IMAGE",
        "DOCKER_BUILD_NETWORK",
        "DEVCONTAINER_IMAGE",
        "FAIRLEAD_IMAGE",
        "KIND_CONFIG",
    ):
        monkeypatch.delenv(name, raising=False)

    def put(script: str) -> Path:
        program = tmp_path / "bin" / "docker"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$*" >> {log}\n{script}\n')
        program.chmod(0o755)
        return log

    return put


def saying(lines: tuple[str, ...], code: int = 0) -> str:
    """A script that prints `lines` for a build, and answers everything else."""
    text = "\n".join(lines)
    return f"case $1 in build) cat <<'END'\n{text}\nEND\nexit {code};; image) echo 7000000;; esac"


def test_an_engine_that_answers_is_available(docker: Docker) -> None:
    docker("echo 29.1.0")
    docker_cli.available()


def test_without_the_program_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="no program docker on PATH: install Docker"):
        docker_cli.available()


@pytest.mark.parametrize("text", STOPPED)
def test_a_stopped_engine_is_told_in_one_line(docker: Docker, text: str) -> None:
    docker(f"echo '{text}' >&2; exit 1")
    with pytest.raises(UsageError) as refused:
        docker_cli.available()
    assert str(refused.value).startswith(
        "no Docker engine answers at unix:///var/run/docker.sock: start it"
    )
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", DENIED)
def test_a_socket_without_rights_is_told_in_one_line(docker: Docker, text: str) -> None:
    docker(f"echo '{text}' >&2; exit 1")
    with pytest.raises(UsageError) as refused:
        docker_cli.available()
    assert str(refused.value).startswith(
        "no right to use the Docker engine at unix:///var/run/docker.sock: join"
    )
    assert "\n" not in str(refused.value)


def test_another_failure_is_told_in_its_own_words(docker: Docker) -> None:
    docker("echo 'client version 1.41 is too old' >&2; exit 1")
    with pytest.raises(UsageError, match="is too old"):
        docker_cli.available()


@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker on PATH")
def test_the_real_program_without_an_engine_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(
        UsageError, match=rf"no Docker engine answers at unix://{tmp_path}/none\.sock: start it"
    ):
        docker_cli.available()


@pytest.mark.parametrize(
    ("lines", "step"), [(CLASSIC, (1, 2)), (BUILDKIT, (1, 4))], ids=["classic", "BuildKit"]
)
def test_a_build_tells_its_steps_and_the_programs_in_them(
    docker: Docker, tmp_path: Path, lines: tuple[str, ...], step: tuple[int, int]
) -> None:
    log = docker(saying(lines))
    listener = Told()
    docker_cli.build(
        "a:1", tmp_path / "D", tmp_path, {"BASE_IMAGE": "b:2"}, network="host", progress=listener
    )
    assert ("a:1", "RUN make it", *step) in listener.heard
    assert ("kubectl", "compiling 25%", 0, 0) in listener.heard
    assert listener.heard[-1] == ("a:1", "ready", 1, 1)
    (call,) = log.read_text().splitlines()
    options = f"--tag a:1 --file {tmp_path}/D --build-arg=BASE_IMAGE=b:2 --network=host {tmp_path}"
    assert call == f"build --force-rm {options}"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "pull access denied for nowhere, repository does not exist",
            "BASE_IMAGE=nowhere:1.*cannot be pulled",
        ),
        ("E: Unable to fetch some archives", "DOCKER_BUILD_NETWORK=host"),
        ("a.go:1: broken", "then repeat"),
    ],
)
def test_a_failed_build_shows_its_end_and_names_image_and_variable(
    docker: Docker, monkeypatch: pytest.MonkeyPatch, line: str, words: str
) -> None:
    docker(saying(("first", *"x" * 30, line), code=1))
    monkeypatch.setenv("BASE_IMAGE", "nowhere:1")
    with pytest.raises(FairleadError, match=words) as failure:
        images.sidecar("mine:1", Progress())
    text = str(failure.value)
    assert text.startswith("image mine:1 could not be built")
    assert line in text
    assert "first" not in text
    assert "FAIRLEAD_IMAGE" in text


def test_the_size_of_a_built_image_is_told_in_bytes(docker: Docker) -> None:
    docker(saying(()))
    assert images.sidecar("mine:1", Progress()) == 7_000_000


def test_an_image_that_is_not_there_cannot_be_measured_or_pulled(docker: Docker) -> None:
    docker("echo 'Error: No such image: a:1' >&2; exit 1")
    assert not docker_cli.has_image("a:1")
    assert not docker_cli.pull("a:1")
    with pytest.raises(FairleadError, match="no image a:1"):
        docker_cli.size("a:1")


def test_an_engine_that_is_reached_over_the_network_has_no_socket_to_mount(docker: Docker) -> None:
    docker("echo tcp://10.0.0.1:2376")
    with pytest.raises(UsageError, match=r"at tcp://10\.0\.0\.1:2376 has no socket"):
        containers.socket("a:1")


@pytest.mark.parametrize(
    ("endpoint", "system", "path"),
    [
        ("unix:///run/user/7/docker.sock", "Debian", "/run/user/7/docker.sock"),
        ("unix:///home/me/.docker/run/docker.sock", "Docker Desktop", "/var/run/docker.sock"),
    ],
)
def test_the_socket_is_the_one_that_the_engine_can_mount(
    docker: Docker, endpoint: str, system: str, path: str
) -> None:
    log = docker(f"case $1 in context) echo {endpoint};; info) echo {system};; run) echo 42;; esac")
    assert containers.socket("a:1") == (path, 42)
    assert f"--volume {path}:/var/run/docker.sock" in log.read_text()


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_run_ends_with_the_code_of_what_it_ran_and_leaves_no_container(
    docker: Docker, tmp_path: Path, code: int
) -> None:
    log = docker(f"case $1 in run) exit {code};; esac")
    assert (
        containers.run("a:1", ["b"], environment={"C": "d"}, results={"/e": tmp_path / "f"}) == code
    )
    run, copy, remove = log.read_text().splitlines()
    name = run.split()[2]
    assert run == f"run --name {name} --init --pull=never --env=C=d a:1 b"
    assert copy == f"cp {name}:/e {tmp_path}/f"
    assert remove == f"rm --force --volumes {name}"


def test_a_container_that_docker_could_not_run_is_removed_and_told(docker: Docker) -> None:
    log = docker("case $1 in run) exit 125;; esac")
    with pytest.raises(FairleadError, match="docker run a:1 failed"):
        containers.run("a:1", ["b"])
    assert log.read_text().splitlines()[-1].startswith("rm --force")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate checkout for the files that a run writes, without any built program."""
    folder = tmp_path / "checkout"
    (folder / "policies").mkdir(parents=True)
    (folder / "policies" / "main.rego").touch()
    (folder / "tools").mkdir()
    for sources in ("toolchain", "plugin", "matcher", "load"):
        (folder / "tools" / sources).symlink_to(paths.root() / "tools" / sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FAIRLEAD_HOME", str(folder))
    return folder


ENGINE = "context) echo unix:///var/run/docker.sock;; image) echo 1;;"


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_lets_its_container_clean_up_and_removes_it(
    docker: Docker, checkout: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    started = tmp_path / "started"
    log = docker(
        f"case $1 in {ENGINE} run) trap 'kill $!; echo cleaned >> {tmp_path}/log; exit 0' TERM\n"
        f"sleep 600 & touch {started}; wait;; esac"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", "docker-e2e"],
        env={**os.environ, "FAIRLEAD_CLUSTER": "embedded"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        waiting.until(started.exists, deadline=DEADLINE, what="the container runs")
        process.send_signal(stop)
        _, errors = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "error: interrupted"
    calls = [line.split()[0] for line in log.read_text().splitlines()]
    assert calls == ["version", "build", "image", "run", "cleaned", "cp", "rm"]


def test_a_cluster_of_kind_gets_the_socket_and_what_is_set(
    docker: Docker, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "kind.yaml"
    config.touch()
    monkeypatch.setenv("KIND_CONFIG", str(config))
    monkeypatch.setenv("KIND_NODE_IMAGE", "node:1")
    monkeypatch.setenv("OPA_IMAGE", "")
    monkeypatch.delenv("FAIRLEAD_CLUSTER", raising=False)
    log = docker(f"case $1 in {ENGINE} run) [ $2 = --rm ] && echo 42 || exit 1;; esac")
    assert docker_e2e.run(["--keep"], progress=Progress()) == 1
    call = next(line for line in log.read_text().splitlines() if line.startswith("run --name"))
    assert call.endswith(" fairlead-dev:0.1.0 python -m lab e2e --keep")
    for option in (
        "--volume=/var/run/docker.sock:/var/run/docker.sock",
        "--group-add=42",
        "--network=host",
        f"--volume={config}:/run/kind.yaml:ro",
        "--env=KIND_CONFIG=/run/kind.yaml",
        "--env=KIND_NODE_IMAGE=node:1",
        "--env=FAIRLEAD_CLUSTER=kind",
    ):
        assert option in call.split()
    assert "OPA_IMAGE" not in call


def test_an_embedded_cluster_gets_no_socket(
    docker: Docker, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_CLUSTER", "embedded")
    monkeypatch.setenv("DEVCONTAINER_IMAGE", "mine:1")
    log = docker(f"case $1 in {ENGINE} esac")
    stale = checkout / docker_e2e.LOGS / "earlier"
    stale.mkdir(parents=True)
    assert docker_e2e.run([], progress=Progress()) == 0
    assert not stale.exists()
    call = next(line for line in log.read_text().splitlines() if line.startswith("run --name"))
    assert call.endswith(
        "--init --pull=never --env=FAIRLEAD_CLUSTER=embedded mine:1 python -m lab e2e"
    )


def test_programs_that_this_machine_has_built_are_not_built_again(
    docker: Docker, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (opa,) = programs.select(["opa"])
    built = recipe.load(opa.module).built(opa)
    built.parent.mkdir(parents=True)
    built.write_text("a program")
    assert toolchain.cached() == {Path("opa") / built.parent.name / "opa": built}
    monkeypatch.setenv("FAIRLEAD_CLUSTER", "embedded")
    # What is sent to the first build is kept; the image of the programs is not there yet.
    sent = checkout / "sent"
    log = docker(
        f"case $1 in build) for last; do :; done; [ -e {sent} ] || cp -r $last {sent};; "
        f"image) case $* in *fairlead-programs*) exit 1;; esac; echo 1;; {ENGINE} esac"
    )
    assert docker_e2e.run([], progress=Progress()) == 0
    first, second = (
        line.split() for line in log.read_text().splitlines() if line.startswith("build ")
    )
    tag = first[first.index("--tag") + 1]
    assert tag.startswith("fairlead-programs:")
    assert f"--build-arg=PROGRAMS_IMAGE={tag}" in second
    assert (sent / "programs" / "opa" / built.parent.name / "opa").read_text() == "a program"


def test_its_logs_are_where_the_run_leaves_them() -> None:
    assert Path(docker_e2e.LOGS) == e2e.LOGS


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("FAIRLEAD_CLUSTER", "x", "'x' is not one of kind, embedded"),
        ("KIND_CONFIG", "/nowhere", "no file /nowhere"),
    ],
)
def test_a_wrong_variable_is_named_before_anything_is_done(
    docker: Docker, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    log = docker("exit 1")
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=f"{variable}: {words}"):
        docker_e2e.run([], progress=Progress())
    assert log.read_text() == ""

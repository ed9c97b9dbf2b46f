"""Runs containers, which end with their caller, and commands in them."""

from __future__ import annotations

import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.programs import docker

_SILENT = Progress()
_ENDING = 120.0  # seconds that a container has to clean up after SIGTERM
_FAILED = 125  # the exit code of `docker run` where Docker itself failed


def execute(container: str, command: Sequence[str]) -> str:
    """The output of a command in a running container. Raises FairleadError with its error."""
    try:
        completed = docker.ask("exec", container, *command)
    except subprocess.TimeoutExpired as error:
        raise FairleadError(
            f"{container}: {command[0]} did not end within {docker.WITHIN:.0f} s"
        ) from error
    if completed.returncode:
        raise FairleadError(
            f"{container}: {command[0]}: {docker.last(completed.stderr or completed.stdout)}"
        )
    return completed.stdout


def socket(image: str) -> tuple[str, int]:
    """The path of the engine's socket, which containers can mount, and the id of its group there.

    A container of `image`, which has `stat`, looks: the engine may run in another machine, or
    change the owners of files. Raises UsageError if the engine has no socket.
    """
    endpoint = docker.ask(
        "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"
    ).stdout.strip()
    if not endpoint.startswith("unix://"):
        raise UsageError(
            f"the Docker engine at {endpoint} has no socket that a container could use: use one "
            "that has"
        )
    path = endpoint.removeprefix("unix://")
    if docker.ask("info", "--format", "{{.OperatingSystem}}").stdout.strip() == "Docker Desktop":
        path = "/var/run/docker.sock"  # in its own machine
    arguments = ["--volume", f"{path}:/var/run/docker.sock", "--entrypoint", "stat", image]
    completed = docker.ask(
        "run", "--rm", "--pull=never", *arguments, "--format=%g", "/var/run/docker.sock"
    )
    if completed.returncode:
        reason = docker.last(completed.stderr)
        raise FairleadError(f"the Docker socket {path} cannot be mounted in a container: {reason}")
    return path, int(completed.stdout)


def run(
    image: str,
    arguments: Sequence[str],
    *,
    options: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    results: Mapping[str, Path] = MappingProxyType({}),
    progress: Progress = _SILENT,
) -> int:
    """Run a container in the foreground, with `options` of `docker run`, and return its exit code.

    The container is always removed. Only this process gets Ctrl-C and SIGTERM: it then ends the
    container, which has two minutes to clean up, or none after a second Ctrl-C. Finally `results`
    are copied: folders of the container -> folders here. Raises FairleadError if Docker failed.
    """
    name = f"fairlead-{secrets.token_hex(4)}"
    variables = [f"--env={key}={value}" for key, value in environment.items()]
    command = [
        "docker",
        "run",
        "--name",
        name,
        "--init",
        "--pull=never",
        *options,
        *variables,
        image,
        *arguments,
    ]
    try:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True) as child:
            try:
                code = child.wait()
            except BaseException:
                progress.update(name, "ending")
                _end(child)
                raise
        if code == _FAILED:
            raise FairleadError(f"docker run {image} failed: see above")
        return code
    finally:
        for folder, target in results.items():
            _copy(name, folder, target)
        # It has a session of its own, so Ctrl-C does not interrupt it.
        with suppress(OSError):
            docker.ask("rm", "--force", "--volumes", name)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the container by a signal to its client, and wait until it has ended."""
    try:
        child.send_signal(signal.SIGTERM)
        child.wait(_ENDING)
    except subprocess.TimeoutExpired:
        pass
    finally:
        child.kill()


def _copy(name: str, folder: str, target: Path) -> None:
    """Copy a container's `folder`, if it exists, to `target`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    docker.ask("cp", f"{name}:{folder}", str(target))

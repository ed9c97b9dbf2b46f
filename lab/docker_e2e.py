"""Runs the end-to-end tests in the devcontainer's image, which needs only Docker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.programs import images
from lab import containers, devcontainer_image

IMAGE = "fairlead-dev:0.1.0"
CLUSTERS = ("kind", "embedded")
LOGS = "build/e2e-logs"
"""The folder with the logs of a failed run, in the container's checkout and then in this one."""

_CHECKOUT = "/workspaces/fairlead"
_SOCKET = "/var/run/docker.sock"
_KIND_CONFIG = "/run/kind.yaml"
_FORWARDED = (
    *(
        "KIND_CLUSTER_NAME",
        "KIND_NODE_IMAGE",
        "OPA_IMAGE",
        "KUBE_MGMT_IMAGE",
        "FAIRLEAD_IMAGE",
        "IMAGE_PULL_POLICY",
    ),
    *(images.BASE_VARIABLE, images.NETWORK_VARIABLE),
)


def run(arguments: Sequence[str], *, progress: Progress) -> int:
    """Build the devcontainer's image from this checkout and run `python -m lab e2e` in it. Returns
    the exit code of that run.

    FAIRLEAD_CLUSTER chooses the cluster: kind (the default) beside the container in the same Docker
    engine, or embedded inside of the container. DEVCONTAINER_IMAGE names the image. Raises
    UsageError for an invalid variable, FairleadError if Docker fails.
    """
    cluster = os.environ.get("FAIRLEAD_CLUSTER") or CLUSTERS[0]
    if cluster not in CLUSTERS:
        raise UsageError(f"FAIRLEAD_CLUSTER: {cluster!r} is not one of {', '.join(CLUSTERS)}")
    config = _kind_config()
    image = os.environ.get("DEVCONTAINER_IMAGE") or IMAGE
    devcontainer_image.build(image, progress)
    environment = {name: value for name in _FORWARDED if (value := os.environ.get(name))}
    environment["FAIRLEAD_CLUSTER"] = cluster
    options = []
    if cluster == "kind":
        path, group = containers.socket(image)
        # kind's API server listens on the host's loopback.
        options = [f"--volume={path}:{_SOCKET}", f"--group-add={group}", "--network=host"]
        if config:
            options.append(f"--volume={config}:{_KIND_CONFIG}:ro")
            environment["KIND_CONFIG"] = _KIND_CONFIG
    logs = paths.root() / LOGS
    shutil.rmtree(logs, ignore_errors=True)
    progress.finish("container", f"runs the end-to-end tests, on a cluster of {cluster}")
    return containers.run(
        image,
        ["python", "-m", "lab", "e2e", *arguments],
        options=options,
        environment=environment,
        results={f"{_CHECKOUT}/{LOGS}": logs},
        progress=progress,
    )


def _kind_config() -> Path | None:
    """The file that KIND_CONFIG names, if any. Raises UsageError if it does not exist."""
    value = os.environ.get("KIND_CONFIG")
    if not value:
        return None
    path = Path(value).resolve()
    if not path.is_file():
        raise UsageError(f"KIND_CONFIG: no file {path}: name a configuration of kind, or unset it")
    return path

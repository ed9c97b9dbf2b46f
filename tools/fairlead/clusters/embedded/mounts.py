"""Lists the Secrets that a replica mounts, and waits until their files have the expected
contents."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from fairlead.clusters.embedded import volume
from fairlead.clusters.embedded.kubelet import Volume
from fairlead.common import waiting
from fairlead.deployment.names import TLS_SECRET, TOKEN_SECRET
from fairlead.opa import containers
from fairlead.policy import policy_files

DEADLINE = 30.0
"""Seconds in which a Secret that the API server has is mounted."""


def volumes(files: containers.Files, logs: str | None) -> list[Volume]:
    """The volumes that a pod mounts; `logs` is the Secret of the decision logs' service."""
    mounts = [
        Volume(str(files.tls), TLS_SECRET),
        Volume(str(files.authz), TOKEN_SECRET, list(policy_files.FILE_MODULES)),
        Volume(str(files.token), TOKEN_SECRET, ["token"]),
    ]
    return [*mounts, Volume(str(files.logs), logs)] if logs else mounts


def wait_for(mounted: Iterable[tuple[Path, Mapping[str, bytes]]], title: str) -> None:
    """Return when each folder holds these contents, key -> data. Raises FairleadError."""
    for folder, contents in mounted:
        holds = functools.partial(_holds, folder, contents)
        waiting.until(holds, deadline=DEADLINE, what=f"{title} are mounted", pause=0.02)


def _holds(folder: Path, contents: Mapping[str, bytes]) -> bool:
    try:
        return volume.read(folder) == dict(contents)
    except FileNotFoundError:  # it is being replaced
        return False


def read_once(files: containers.Files) -> str:
    """A digest of what a sidecar reads only when it starts: its token and its CAs."""
    contents = (
        volume.read(Path(files.token)).get("token", b""),
        volume.read(Path(files.tls)).get("ca.crt", b""),
    )
    return hashlib.sha256(b"".join(contents)).hexdigest()

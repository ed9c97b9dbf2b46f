"""Copies Secrets to the folders where OPA's pods would mount them, now and whenever they change.

Run as `python -m fairlead.clusters.embedded.kubelet JSON`, with {kubeconfig, namespace, volumes:
[{folder, secret, keys}]}: `keys` are the keys of the Secret that the folder shows, null for all.
Nothing else writes into these folders: whoever changes a Secret, a controller or a command,
changes it in the API server.
"""

from __future__ import annotations

import json
import sys
import time
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.clusters.embedded import volume
from fairlead.common import texts
from fairlead.common.errors import FairleadError
from fairlead.kube import api_paths
from fairlead.kube.clients import Objects

_SECONDS = 300
"""Seconds of one watch request."""
AGAIN = 0.2
"""Seconds until the next attempt after the API server did not answer, or no longer knows a
version."""


@dataclass(frozen=True)
class Volume:
    """A folder with the keys of a Secret."""

    folder: str
    secret: str
    keys: list[str] | None = None

    def show(self, secret: Mapping[str, Any]) -> bool:
        """Write the Secret's contents into the folder; False if they are there already, or if
        the Secret lacks a key.
        """
        data = secret.get("data") or {}
        if any(key not in data for key in self.keys or ()):
            _log(
                f"{self.folder}: left as it is, as Secret {self.secret} has not all of {self.keys}"
            )
            return False
        return volume.write(
            Path(self.folder), {key: b64decode(data[key]) for key in self.keys or data}
        )


def follow(objects: Objects, namespace: str, volumes: list[Volume]) -> None:
    """Write the Secrets, and each change from then on, until the API server ends the watch.
    Raises FairleadError.
    """
    path = api_paths.joined("v1", namespace, "secrets")
    versions: list[str] = []
    for secret in objects.collection(path, {}, version=versions.append):
        _show(secret, volumes)
    for event, secret in objects.events(path, {}, versions[-1], seconds=_SECONDS):
        if event in ("ADDED", "MODIFIED"):
            _show(secret, volumes)


def _show(secret: Mapping[str, Any], volumes: list[Volume]) -> None:
    for mount in volumes:
        if mount.secret == secret["metadata"]["name"] and mount.show(secret):
            _log(
                f"{mount.folder}: Secret {mount.secret}, version "
                f"{secret['metadata']['resourceVersion']}"
            )


def _log(text: str) -> None:
    print(texts.now(), text, file=sys.stderr, flush=True)  # noqa: T201 - a server's log


def main() -> None:
    """Follow for ever."""
    options = json.loads(sys.argv[1])
    objects = Objects(Path(options["kubeconfig"]))
    volumes = [Volume(**fields) for fields in options["volumes"]]
    with suppress(KeyboardInterrupt):
        while True:
            try:
                follow(objects, options["namespace"], volumes)
            except (FairleadError, OSError) as error:
                _log(str(error))
                time.sleep(AGAIN)


if __name__ == "__main__":
    main()

"""Copies Secrets to the folders where OPA's pods would mount them, now and whenever they change.

Run as `python -m fairlead.clusters.embedded.kubelet JSON`, with {url, ca, cert, key, namespace,
volumes: [{folder, secret, keys}]}: `keys` are those of the Secret that the folder shows, null for
all. It is the only one that writes into these folders: whoever changes a Secret, a keeper in a
sidecar or a command, changes it at the API server.
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

from fairlead.clusters.embedded import kube, volume
from fairlead.common.errors import FairleadError

AGAIN = 0.2
"""Seconds until the API server is asked again that did not answer, or does not know a version
any more."""


@dataclass(frozen=True)
class Volume:
    """A folder with the keys of a Secret."""

    folder: str
    secret: str
    keys: list[str] | None = None

    def show(self, secret: Mapping[str, Any]) -> bool:
        """Bring the folder to the Secret's contents; False where it has them, or where the
        Secret lacks a key.
        """
        data = secret.get("data") or {}
        if any(key not in data for key in self.keys or ()):
            _tell(
                f"{self.folder}: left as it is, as Secret {self.secret} has not all of {self.keys}"
            )
            return False
        return volume.write(
            Path(self.folder), {key: b64decode(data[key]) for key in self.keys or data}
        )


def follow(api: kube.Api, namespace: str, volumes: list[Volume]) -> None:
    """Bring the Secrets, and each change from then on, until the API server ends the watch.
    Raises FairleadError.
    """
    path = f"/api/v1/namespaces/{namespace}/secrets"
    found = api.get(path)
    for secret in found["items"]:
        _show(secret, volumes)
    for event, secret in api.events(path, found["metadata"]["resourceVersion"]):
        if event == "ERROR":
            raise FairleadError(f"watching Secrets: {secret.get('message')}")
        if event in ("ADDED", "MODIFIED"):
            _show(secret, volumes)


def _show(secret: Mapping[str, Any], volumes: list[Volume]) -> None:
    for one in volumes:
        if one.secret == secret["metadata"]["name"] and one.show(secret):
            _tell(
                f"{one.folder}: Secret {one.secret}, version "
                f"{secret['metadata']['resourceVersion']}"
            )


def _tell(text: str) -> None:
    print(time.strftime("%Y-%m-%dT%H:%M:%S%z"), text, file=sys.stderr, flush=True)  # noqa: T201 - a server's log


def main() -> None:
    """Follow for ever."""
    options = json.loads(sys.argv[1])
    api = kube.Api(
        options["url"], Path(options["ca"]), (Path(options["cert"]), Path(options["key"]))
    )
    volumes = [Volume(**one) for one in options["volumes"]]
    with suppress(KeyboardInterrupt):
        while True:
            try:
                follow(api, options["namespace"], volumes)
            except (FairleadError, OSError) as error:
                _tell(str(error))
                time.sleep(AGAIN)


if __name__ == "__main__":
    main()

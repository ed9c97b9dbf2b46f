"""An HTTPS server of files, and OPAs that follow the signed bundles on it with the arguments of a
deployment."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import requests
import yaml
from answering_servers import Reply, Request, serving

from fairlead.deployment import credentials
from fairlead.deployment.credentials import Tls
from fairlead.distribution import configuration, signatures
from fairlead.distribution.archives import NAMES, Archive
from fairlead.distribution.configuration import Following
from fairlead.distribution.signatures import SCOPE, PrivateKey
from fairlead.policy.bundles import Bundle
from lab.fuzz.server import Opa

DEADLINE = 60.0  # seconds


@dataclass
class FileServer:
    """A web server on loopback that gives out `files` (path -> content) and knows nothing about
    bundles; `key` signs what the tests put there, and `ca` is a file. While `away`, it answers 503.
    """

    url: str
    ca: Path
    key: PrivateKey = field(default_factory=signatures.new_key)
    files: dict[str, bytes] = field(default_factory=dict)
    away: bool = False
    _last: int = 0

    def answer(self, request: Request) -> Reply:
        content = self.files.get(request.path)
        if content is None or self.away:
            return Reply(503 if self.away else 404)
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        if request.headers.get("If-None-Match") == etag:
            return Reply(304, {"ETag": etag})
        return Reply(200, {"ETag": etag}, content)

    def signed(
        self, archive: Archive, *, scope: str = SCOPE, lasts: timedelta | None = None
    ) -> Archive:
        """The bundle, signed now, and later than any before."""
        self._last = max(int(time.time()), self._last + 1)
        return signatures.sign(archive, self.key, scope=scope, now=self._last, lasts=lasts)

    def publish(self, archive: Archive) -> Archive:
        """Sign a bundle and put it onto the server."""
        signed = self.signed(archive)
        self.put(archive.name, signed.packed())
        return signed

    def put(self, name: str, packed: bytes) -> None:
        """Put any content in the place of the bundle with this name."""
        self.files[f"/bundles/{name}.tar.gz"] = packed


@contextmanager
def file_server(folder: Path) -> Iterator[FileServer]:
    """A server while the block runs, whose CA is a file in the folder."""
    tls, ca = Tls.fresh(timedelta(days=1), credentials.LOOPBACK), folder / "ca.crt"
    ca.write_bytes(tls.ca)
    server = FileServer("", ca)
    with serving(server.answer, tls) as web:
        server.url = web.url
        yield server


class Follower(Opa):
    """An OPA that follows a server of bundles, and asks it once a second. `launch` starts it
    without waiting for the bundles.
    """

    def __init__(
        self,
        folder: Path,
        server: FileServer,
        *,
        names: Sequence[str] = NAMES,
        **following: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "opa.yaml"
        follows = replace(
            Following(
                url=server.url,
                names=names,
                keys=[server.key.public],
                scope=SCOPE,
                ca=server.ca,
                persisted=folder / "persisted",
            ),
            **following,
        )
        document = configuration.document(follows)
        for bundle in document["bundles"].values():
            bundle["polling"] = {"min_delay_seconds": 1, "max_delay_seconds": 1}
        config.write_text(yaml.safe_dump(document))
        super().__init__(folder, bundle=Bundle({}), data={}, flags=[f"--config-file={config}"])

    def decision(self, review: Mapping[str, Any]) -> Any:
        """The answer to `POST /` without a token; None if OPA has none."""
        answer = requests.post(self.url, json=review, verify=str(self.ca), timeout=DEADLINE)
        return answer.json() if answer.status_code == requests.codes.ok else None

    def ready(self) -> bool:
        """Whether the Service would route to it."""
        api = self.api()
        try:
            return api.ready()
        finally:
            api.close()

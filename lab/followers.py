"""A server of signed bundles as a process, and OPAs that follow it, with the arguments of a
deployment."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import requests
import yaml

from fairlead.clusters.embedded import ports
from fairlead.common import atomic_files, waiting
from fairlead.common.errors import FairleadError
from fairlead.deployment import credentials
from fairlead.deployment.credentials import Tls, fresh_token
from fairlead.distribution import client, configuration, signatures
from fairlead.distribution.archives import NAMES, Archive
from fairlead.distribution.configuration import Following
from fairlead.distribution.signatures import SCOPE, PrivateKey
from fairlead.policy.bundles import Bundle
from lab.fuzz.server import Opa

_DEADLINE = 60.0  # seconds
_VALID = timedelta(days=2)


class Source(Protocol):
    """What has the bundles that OPAs follow: its address, its CA, and the key that signs them."""

    @property
    def url(self) -> str: ...
    @property
    def ca(self) -> Path: ...
    @property
    def key(self) -> PrivateKey: ...


class BundleServer:
    """`fairlead bundle serve` on loopback, with its files below `folder`. It takes bundles that are
    signed by `key`; `served` is the folder of the bundles.
    """

    def __init__(self, folder: Path, key: PrivateKey) -> None:
        self.key = key
        self.served = folder / "served"
        self.served.mkdir(parents=True)
        self.ca, self.token = folder / "ca.crt", folder / "token"
        self._files = {name: folder / name for name in ("tls.crt", "tls.key", "key.pub")}
        tls = Tls.fresh(_VALID, credentials.LOOPBACK)
        contents = (tls.certificate, tls.key, key.public.pem)
        for path, content in zip(self._files.values(), contents, strict=True):
            atomic_files.write_private(path, content)
        self.ca.write_bytes(tls.ca)
        atomic_files.write_private(self.token, fresh_token().encode())
        self._log = folder / "server.log"
        self._port = ports.free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self._last = 0

    @property
    def url(self) -> str:
        return f"https://{ports.HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """Its process id, None if it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start it, and wait until it answers. Raises FairleadError."""
        command = [sys.executable, "-m", "fairlead", "bundle", "serve", str(self.served)]
        flags = {
            "--listen": f"{ports.HOST}:{self._port}",
            "--tls-cert-file": self._files["tls.crt"],
            "--tls-private-key-file": self._files["tls.key"],
            "--push-token-file": self.token,
            "--public-key": self._files["key.pub"],
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *(f"{flag}={value}" for flag, value in flags.items())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        waiting.until(self._answers, deadline=_DEADLINE, what="the server of bundles answers")

    def stop(self) -> int | None:
        """Tell it to end, and wait for that; its exit code."""
        if self._process is None:
            return None
        self._process.terminate()
        return self._process.wait(_DEADLINE)

    def signed(
        self, archive: Archive, *, scope: str = SCOPE, lasts: timedelta | None = None
    ) -> Archive:
        """The bundle, signed now, and later than any before."""
        self._last = max(int(time.time()), self._last + 1)
        return signatures.sign(archive, self.key, scope=scope, now=self._last, lasts=lasts)

    def push(self, archive: Archive) -> Archive:
        """Sign and push a bundle. Raises UsageError."""
        signed = self.signed(archive)
        self.put(signed)
        return signed

    def put(self, signed: Archive) -> None:
        """Push a signed bundle. Raises UsageError."""
        client.push(self.url, signed, signed.packed(), token=self.token, ca=self.ca)

    def place(self, name: str, packed: bytes) -> None:
        """Replace a bundle without asking the server, as someone who took over its machine."""
        atomic_files.write_private(self.served / f"{name}.tar.gz", packed)

    def status(self) -> dict[str, Any]:
        """What `fairlead bundle status` shows. Raises UsageError."""
        return client.status(self.url, ca=self.ca)

    def of_bundle(self, name: str) -> dict[str, Any]:
        """The same for one bundle."""
        return next(row for row in self.status()["bundles"] if row["name"] == name)

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(self._log.read_text()[-2000:])
        try:
            return requests.get(f"{self.url}/health", verify=str(self.ca), timeout=5).ok
        except requests.RequestException as error:
            raise FairleadError(str(error)) from error


class Follower(Opa):
    """An OPA that follows a server of bundles. `launch` starts it without waiting for them."""

    def __init__(
        self,
        folder: Path,
        server: Source,
        *,
        names: Sequence[str] = NAMES,
        labels: Mapping[str, str] | None = None,
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
                labels=labels or {},
            ),
            **following,
        )
        config.write_text(yaml.safe_dump(configuration.document(follows)))
        super().__init__(folder, bundle=Bundle({}), data={}, flags=[f"--config-file={config}"])

    def decision(self, review: Mapping[str, Any]) -> Any:
        """The answer to `POST /` without a token; None if OPA has none."""
        answer = requests.post(self.url, json=review, verify=str(self.ca), timeout=_DEADLINE)
        return answer.json() if answer.status_code == requests.codes.ok else None

    def ready(self) -> bool:
        """Whether the Service would route to it."""
        api = self.api()
        try:
            return api.ready()
        finally:
            api.close()

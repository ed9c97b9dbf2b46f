"""A real OPA for tests, guarded by TLS and a token as it is deployed."""

from __future__ import annotations

import hashlib
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from fairlead.common import waiting
from fairlead.opa.api import OpaApi
from fairlead.pki.certificates import Authority
from fairlead.pki.key_files import write_pair
from fairlead.programs import toolchain

TOKEN = "a-token-for-tests"
DEADLINE = 20.0
GUARD = """package system.authz

default allow := false

allow if input.path in [[""], ["health"], ["health", "ready"]]

allow if crypto.sha256(input.identity) == "{digest}"
"""


class OpaServer:
    """One OPA on a port of its own, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority.create("test", timedelta(hours=1))
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(self.authority.cert_pem)
        pair = self.authority.issue(
            "test", ips=["127.0.0.1"], server=True, valid=timedelta(hours=1)
        )
        self.certificate, self.key = write_pair(pair, folder, "server")
        self._guard = folder / "guard.rego"
        self._guard.write_text(GUARD.format(digest=hashlib.sha256(TOKEN.encode()).hexdigest()))
        self._log = folder / "opa.log"
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"https://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        arguments = [
            "run",
            "--server",
            "--addr",
            f"127.0.0.1:{self._port}",
            "--authentication=token",
        ]
        arguments += [
            "--authorization=basic",
            f"--tls-cert-file={self.certificate}",
            f"--tls-private-key-file={self.key}",
        ]
        with self._log.open("ab") as log:
            program = toolchain.ensure(["opa"])["opa"]
            self._process = subprocess.Popen(
                [program, *arguments, self._guard], stdout=log, stderr=log
            )
        api = self.api()
        waiting.until(lambda: api.policies() is not None, deadline=DEADLINE, what="OPA answers")

    def kill(self) -> None:
        """End it, as a crash would."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def api(self, token: str | None = TOKEN, *, ca: Path | None = None) -> OpaApi:
        """A client that trusts it."""
        return OpaApi(self.url, ca=ca or self.ca, token=token)

    def own_policies(self) -> dict[str, str]:
        """What it serves beside its guard."""
        return {
            id_: text
            for id_, text in self.api().policies().items()
            if not id_.endswith("guard.rego")
        }


@contextmanager
def running(folder: Path) -> Iterator[OpaServer]:
    """An OPA that runs until the end of the block."""
    server = OpaServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

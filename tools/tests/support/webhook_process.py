"""Webhooks as real processes, with real clients: `fairlead serve` beside a fake API server, and any
other program."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import fake_apiserver
import requests
from fake_apiserver import FakeApiServer

from fairlead.common import waiting
from fairlead.pki.certificates import CA

HOUR = timedelta(hours=1)


@dataclass
class Webhook:
    """A running server. Its certificate is in the folder, as `tls.crt`, and so is its log."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path

    def send(self, body: Any, path: str = "/", **headers: str) -> requests.Response:
        """The answer to a POST of `body`, which is JSON or bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return requests.post(
            self._url(path), data=data, headers=headers, verify=self._ca, timeout=20
        )

    def get(self, path: str) -> requests.Response:
        """The answer to a GET."""
        return requests.get(self._url(path), verify=self._ca, timeout=20)

    def connect(self) -> ssl.SSLSocket:
        """A TLS connection of its own."""
        context = ssl.create_default_context(cafile=self._ca)
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        return context.wrap_socket(raw, server_hostname="127.0.0.1")

    def log(self) -> str:
        """What the process has written to its standard error."""
        return (self.folder / "log").read_text()

    def answers(self, path: str) -> bool:
        """Whether all workers answer with success; a new connection may reach any of them."""
        assert self.process.poll() is None, self.log()
        try:
            return all(self.get(path).ok for _ in range(8))
        except requests.RequestException:
            return False

    def _url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}{path}"

    @property
    def _ca(self) -> str:
        return str(self.folder / "ca.crt")


@dataclass
class Served(Webhook):
    """`fairlead serve`, and the API server that it watches."""

    api: FakeApiServer

    def ready(self) -> bool:
        """Whether all workers know the namespaces."""
        return self.answers("/health/ready")


def write_certificate(folder: Path, ca: CA, name: str) -> None:
    """Replace the server's certificate and key by new ones."""
    issued = ca.issue(name, ips=["127.0.0.1"], server=True, valid=HOUR)
    for file, text in (("tls.crt", issued.cert_pem), ("tls.key", issued.key_pem)):
        (folder / f"{file}.new").write_bytes(text)
        (folder / f"{file}.new").rename(folder / file)


@contextmanager
def running(folder: Path, command: Callable[[int], Sequence[str]], path: str) -> Iterator[Webhook]:
    """A webhook until the block ends, from when a GET of the path is answered with success. The
    command is made of the port; its certificate and key are in the folder.
    """
    ca = CA.create("test", HOUR)
    (folder / "ca.crt").write_bytes(ca.cert_pem)
    write_certificate(folder, ca, "first")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command(port), stderr=log)
    webhook = Webhook(process, port, folder)
    try:
        waiting.until(lambda: webhook.answers(path), deadline=60.0, what="the server is ready")
        yield webhook
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def serving(folder: Path, settings: str, workers: int = 2) -> Iterator[Served]:
    """`fairlead serve` until the block ends. It knows the namespaces `payments`, of pool1, and
    `free`.
    """
    (folder / "fairlead.yaml").write_text(settings)
    with fake_apiserver.running() as api:
        api.put("namespaces", "payments", labels={"agentpool": "pool1"})
        api.put("namespaces", "free")

        def command(port: int) -> list[str]:
            return [
                *(sys.executable, "-m", "fairlead", "serve"),
                f"--settings={folder / 'fairlead.yaml'}",
                f"--kubeconfig={api.kubeconfig(folder)}",
                f"--listen=127.0.0.1:{port}",
                f"--tls-cert-file={folder / 'tls.crt'}",
                f"--tls-private-key-file={folder / 'tls.key'}",
                f"--workers={workers}",
            ]

        with running(folder, command, "/health/ready") as webhook:
            yield Served(webhook.process, webhook.port, webhook.folder, api)

"""Serves the health and metrics of a component beside what it does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry

from fairlead.sync.metrics import not_after
from fairlead.sync.server import Server
from fairlead.sync.server_certificates import Certificate


def start(
    endpoint: str,
    tls: tuple[Path, Path],
    registry: CollectorRegistry,
    health: Callable[[], dict[str, Any]],
    review: Callable[[bytes], dict[str, Any]] | None = None,
) -> None:
    """Serve at `endpoint` (host:port) until the process ends, with the certificate and the key in
    the files `tls`, and answer reviews of objects by `review`. The component counts as live all the
    time, so each of its steps must have a deadline.

    Raises InputError if the files cannot be used, and UsageError if it cannot listen there.
    """
    certificate = Certificate(*tls)
    not_after(registry, certificate.not_after)

    def live() -> dict[str, Any]:
        return {"live": True, "hung": []}

    server = Server(
        endpoint, certificate, health=health, live=live, metrics=registry, review=review
    )
    Thread(target=server.serve_forever, args=(0.2,), name="server", daemon=True).start()

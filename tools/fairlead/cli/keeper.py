"""`fairlead keeper`: renew OPA's certificate where the sidecar cannot (kube-mgmt)."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from threading import Event, Thread
from typing import Any

import click
from prometheus_client import CollectorRegistry, generate_latest

from fairlead.cli import component_options, renewal_options
from fairlead.cli.component_options import FILE
from fairlead.common.errors import UsageError
from fairlead.deployment import component_flags as flags
from fairlead.sync.metrics import not_after
from fairlead.sync.server import Server
from fairlead.sync.server_certificates import Certificate


@click.command()
@component_options.kubeconfig
@renewal_options.options
@click.option(
    flags.ROLL_OUT,
    is_flag=True,
    help="Restart OPA's pods so that they read the new CA: for kube-mgmt.",
)
@click.option(
    flags.HEALTH_ENDPOINT, required=True, help="host:port to serve /health and /metrics at."
)
@click.option(
    flags.TLS_CERT_FILE,
    type=FILE,
    required=True,
    help="The certificate to serve with; read again when it changes.",
)
@click.option(
    flags.TLS_PRIVATE_KEY_FILE, type=FILE, required=True, help="The key of the certificate."
)
@component_options.log_level
def command(
    kubeconfig: Path | None,
    renewal: renewal_options.Renewal | None,
    roll_out: bool,
    health_endpoint: str,
    tls_cert_file: Path,
    tls_private_key_file: Path,
    log_level: str,
) -> None:
    """Renew OPA's certificate and its CA in time, beside the sidecar kube-mgmt.

    The sidecar `fairlead sync` renews them itself.
    """
    if renewal is None:
        raise UsageError(
            "--certificate-life is missing: say how long certificates last, for instance 90d"
        )
    registry = CollectorRegistry()
    certificate = Certificate(tls_cert_file, tls_private_key_file)
    not_after(registry, certificate.not_after)
    keeper = renewal_options.keeper(
        renewal, kubeconfig, replica=socket.gethostname(), registry=registry, rolls=roll_out
    )

    def health() -> dict[str, Any]:
        state = keeper.health()
        return {
            "healthy": state["trouble"] is None,
            "reasons": list(filter(None, [state["trouble"]])),
            "keeper": state,
        }

    def live() -> dict[str, Any]:
        return {"live": True, "hung": []}  # the keeper cannot hang: each step has a deadline

    server = Server(
        health_endpoint, certificate, health=health, live=live, metrics=_Registered(registry)
    )
    component_options.log(log_level)
    Thread(target=server.serve_forever, args=(0.2,), name="server", daemon=True).start()
    try:
        keeper.run(Event())
    except KeyboardInterrupt:
        logging.getLogger("fairlead.keeper").info("ending")


class _Registered:
    """The source of /metrics: all metrics of a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def text(self) -> bytes:
        return generate_latest(self._registry)

"""`fairlead keeper`: renew OPA's certificate where the sidecar cannot (kube-mgmt), and enable
intents in time."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from threading import Event, Thread
from typing import Any

import click
from prometheus_client import CollectorRegistry

from fairlead.cli import component_options
from fairlead.cli.processes import health_server, renewal_options
from fairlead.common.errors import UsageError
from fairlead.deployment import component_flags as flags


@click.command()
@component_options.kubeconfig
@renewal_options.options
@renewal_options.enable_in_time
@click.option(
    flags.ROLL_OUT,
    is_flag=True,
    help="Restart OPA's pods so that they read the new CA: for kube-mgmt.",
)
@component_options.health_endpoint
@component_options.tls_cert_file
@component_options.tls_private_key_file
@component_options.log_level
def command(
    kubeconfig: Path | None,
    renewal: renewal_options.Renewal | None,
    enable_in_time: bool,
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

    component_options.log(log_level)
    tls = (tls_cert_file, tls_private_key_file)
    health_server.start(health_endpoint, tls, registry, health)
    stop = Event()
    if enable_in_time:
        ends = renewal_options.switch_ends(kubeconfig)
        Thread(target=ends.run, args=(stop,), name=ends.name, daemon=True).start()
    try:
        keeper.run(stop)
    except KeyboardInterrupt:
        logging.getLogger("fairlead.keeper").info("ending")

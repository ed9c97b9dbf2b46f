"""`fairlead controller`: carry out transient role bindings."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from threading import Event
from typing import Any

import click
from prometheus_client import CollectorRegistry

from fairlead.access.controller import Controller, Options
from fairlead.access.overdue import Overdue
from fairlead.cli import component_options
from fairlead.cli.component_options import FILE
from fairlead.cli.processes import health_server
from fairlead.common.errors import UsageError
from fairlead.deployment import component_flags as flags


@click.command()
@component_options.kubeconfig
@click.option(flags.OPA_URL, help="Address of OPA's API; required without --overdue.")
@component_options.opa_ca_file
@click.option(
    flags.OPA_AUTH_TOKEN_FILE,
    type=FILE,
    help="The token of the scope access; read again when it changes. Required without --overdue.",
)
@click.option(
    flags.RECHECK,
    is_flag=True,
    help="Give access only if its requester may still bind the role.",
)
@click.option(
    flags.OVERDUE,
    is_flag=True,
    help="Only end what no controller has ended within 30 s. Needs no OPA.",
)
@component_options.health_endpoint
@click.option(
    flags.REPLICA,
    help="This process's name in the Lease; restarted, it needs the same one.  [default: the host "
    "name, which is the pod's]",
)
@component_options.tls_cert_file
@component_options.tls_private_key_file
@component_options.log_level
def command(
    kubeconfig: Path | None,
    opa_url: str | None,
    opa_ca_file: Path | None,
    opa_auth_token_file: Path | None,
    recheck: bool,
    overdue: bool,
    replica: str | None,
    health_endpoint: str,
    tls_cert_file: Path,
    tls_private_key_file: Path,
    log_level: str,
) -> None:
    """Carry out transient role bindings: make each binding when it begins, and delete it when it
    ends.

    `fairlead deploy` starts it where the setting `access` is on. OPA decides; what is there ends on
    time even while OPA is away. Of several controllers, one at a time works. Beside them runs one
    with --overdue, which ends access while they cannot.
    """
    registry = CollectorRegistry()
    component: Controller | Overdue
    if overdue:
        component = Overdue(kubeconfig, registry)
    elif not opa_url or not opa_auth_token_file:
        raise UsageError(f"{flags.OPA_URL} and {flags.OPA_AUTH_TOKEN_FILE} are required")
    else:
        options = Options(
            kubeconfig=kubeconfig,
            opa_url=opa_url,
            opa_ca_file=opa_ca_file,
            opa_auth_token_file=opa_auth_token_file,
            recheck=recheck,
            replica=replica or socket.gethostname(),
        )
        component = Controller(options, registry)

    def health() -> dict[str, Any]:
        state = component.health()
        return {"healthy": not state["reasons"], **state}

    component_options.log(log_level)
    tls = (tls_cert_file, tls_private_key_file)
    health_server.start(health_endpoint, tls, registry, health)
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    component.run(stop)

"""`fairlead controller`: bring policies and settings that are objects into force, and keep
certificates, disabled intents and transient access in time."""

from __future__ import annotations

import functools
import signal
import socket
from datetime import timedelta
from pathlib import Path
from threading import Event

import click
from prometheus_client import CollectorRegistry

from fairlead.access.controller import Controller, Options
from fairlead.access.overdue import Overdue
from fairlead.admission.findings import MOST, PAGE, Findings
from fairlead.cli import component_options
from fairlead.cli.component_options import FILE
from fairlead.cli.processes import health_server, renewal_options, server_options
from fairlead.common import durations
from fairlead.common.errors import UsageError
from fairlead.controller import beginning
from fairlead.controller.exception_statuses import ExceptionStatuses
from fairlead.controller.inside import InsideCluster
from fairlead.controller.lifecycle import Lifecycle
from fairlead.controller.process import Part, Process
from fairlead.controller.restoring import Restoring
from fairlead.controller.reviews import Reviews
from fairlead.controller.rotations import Rotations
from fairlead.deployment import component_flags as flags
from fairlead.keeper.switch_ends import SwitchEnds
from fairlead.kube.api_requests import BRIEF, ApiRequests
from fairlead.kube.clients import Objects


@click.command()
@component_options.kubeconfig
@server_options.options
@renewal_options.options
@click.option(
    flags.OPA_URL,
    help="Carry out transient role bindings, by the decisions of the OPA with this address.",
)
@click.option(
    flags.OPA_CA_FILE,
    type=FILE,
    help="The CA that verifies OPA. With it, bring into force what the objects Fairlead and Policy "
    "say.",
)
@click.option(
    flags.FINDINGS,
    metavar="DURATION",
    help="How often to look for objects that policies would refuse, or that lack what they add, "
    "such as 10m; `fairlead deploy` writes it.  [default: never]",
)
@click.option(flags.WEBHOOK_URL, help="Where API servers call OPA, if not by its Service.")
@click.option(
    flags.CONTROLLER_URL, help="Where API servers call this process, if not by its Service."
)
@click.option(
    flags.OPA_AUTH_TOKEN_FILE,
    type=FILE,
    help="The token of the scope access; read again when it changes. Required with --opa-url.",
)
@click.option(
    flags.RECHECK,
    is_flag=True,
    help="Give access only if its requester may still bind the role.",
)
@click.option(
    flags.OVERDUE,
    is_flag=True,
    help="Only end access that no controller has ended within 30 s. Needs no OPA.",
)
@component_options.health_endpoint
@click.option(
    flags.REPLICA,
    help="This process's name in the Leases; restarted, it needs the same one.  [default: the host "
    "name, which is the pod's]",
)
@component_options.tls_cert_file
@component_options.tls_private_key_file
@component_options.log_level
def command(
    kubeconfig: Path | None,
    decides: server_options.Servers,
    renewal: renewal_options.Renewal | None,
    opa_url: str | None,
    opa_ca_file: Path | None,
    findings: str | None,
    webhook_url: str | None,
    controller_url: str | None,
    opa_auth_token_file: Path | None,
    recheck: bool,
    overdue: bool,
    replica: str | None,
    health_endpoint: str,
    tls_cert_file: Path,
    tls_private_key_file: Path,
    log_level: str,
) -> None:
    """Bring into force what the objects Fairlead and Policy say, and do what is due: renew OPA's
    certificate and its CA, enable intents whose `fairlead disable --for` is over, and make each
    transient role binding when it begins, and delete it when it ends.

    `fairlead deploy` starts it. Several may run: of each kind of work, one at a time does it.
    Access ends on time even while OPA is away. Beside it runs one with --overdue, which ends access
    while it cannot.
    """
    if opa_url and not opa_auth_token_file:
        raise UsageError(f"{flags.OPA_AUTH_TOKEN_FILE} is required with {flags.OPA_URL}")
    registry, name = CollectorRegistry(), replica or socket.gethostname()
    component_options.log(log_level)
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    tls = (tls_cert_file, tls_private_key_file)
    if opa_ca_file and kubeconfig is None:  # in a pod, the kubelet brings the files
        objects = Objects(None)
        if not beginning.are_mounted(objects, tls, replica=name, stop=stop):
            return
    parts: list[Part]
    review = None
    if overdue:
        parts = [Overdue(kubeconfig, registry)]
    else:
        parts = [SwitchEnds(Objects(kubeconfig, timeout=BRIEF))]
        if opa_ca_file:
            listed = decides.listed(ApiRequests(kubeconfig, timeout=BRIEF))
            urls = (webhook_url, controller_url)
            inside = functools.partial(InsideCluster, kubeconfig, opa_ca_file, listed, urls)
            parts.append(Lifecycle(kubeconfig, inside, replica=name))
            parts.append(Restoring(kubeconfig, inside, replica=name))
            parts.append(Rotations(kubeconfig, inside, replica=name))
            parts.append(ExceptionStatuses(Objects(kubeconfig, timeout=BRIEF)))
            review = Reviews(Objects(kubeconfig)).answer
        if findings:
            parts.append(
                Findings(
                    Objects(kubeconfig),
                    ApiRequests(kubeconfig, page=PAGE, most=MOST),
                    every=_duration(findings),
                    replica=name,
                    registry=registry,
                )
            )
        if renewal:
            keeper = renewal_options.keeper(
                renewal, kubeconfig, decides, replica=name, registry=registry
            )
            parts.append(keeper)
        if opa_url and opa_auth_token_file:
            options = Options(
                kubeconfig=kubeconfig,
                opa_url=opa_url,
                opa_ca_file=opa_ca_file,
                opa_auth_token_file=opa_auth_token_file,
                recheck=recheck,
                replica=name,
            )
            parts.append(Controller(options, registry))
    process = Process(parts)
    health_server.start(health_endpoint, tls, registry, process.health, review)
    process.run(stop)


def _duration(text: str) -> timedelta:
    """Raises UsageError."""
    try:
        return durations.parse(text)
    except ValueError as error:
        raise UsageError(f"{flags.FINDINGS}: {error}") from error

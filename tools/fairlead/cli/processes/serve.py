"""`fairlead serve`: run an admission webhook that decides by the policies in Python."""

from __future__ import annotations

import os
from pathlib import Path

import click

from fairlead.cli import component_options
from fairlead.common.errors import UsageError
from fairlead.deployment import component_flags as flags
from fairlead.engines.python.serving import server
from fairlead.settings.models import Settings


@click.command()
@component_options.settings
@click.option(
    flags.DEPLOYED,
    is_flag=True,
    help="Decide by the policies and settings that `fairlead deploy --engine python` has put into "
    "the cluster, and follow their changes.",
)
@component_options.kubeconfig
@component_options.listen
@component_options.tls_cert_file
@component_options.tls_private_key_file
@click.option(
    flags.WORKERS,
    type=click.IntRange(1, 64),
    default=min(os.cpu_count() or 1, 4),
    help="Processes that decide.  [default: the processors, at most 4]",
)
@component_options.log_level
def command(
    settings_file: Path | None,
    deployed: bool,
    kubeconfig: Path | None,
    listen: tuple[str, int],
    tls_cert_file: Path,
    tls_private_key_file: Path,
    workers: int,
    log_level: str,
) -> None:
    """Run an admission webhook that decides by the policies in Python.

    It answers AdmissionReviews (admission.k8s.io/v1 and v1beta1) at POST /, and serves /health,
    /health/ready and /metrics. It reads the labels of namespaces from the API server, and needs the
    right to get, list and watch them. On SIGTERM it answers the requests that have arrived, and
    ends.
    """
    host, port = listen
    if deployed and settings_file:
        raise UsageError("--deployed reads the settings from the cluster: leave --settings out")
    server.run(
        server.Options(
            settings=None if deployed else _settings(settings_file),
            host=host,
            port=port,
            certificate=tls_cert_file,
            key=tls_private_key_file,
            kubeconfig=kubeconfig,
            workers=workers,
            log_level=component_options.server_level(log_level),
        )
    )


def _settings(file: Path | None) -> Settings:
    # Here, as the image has none of what reads settings from files: it serves what is deployed.
    from fairlead.cli import options

    return options.load(file)

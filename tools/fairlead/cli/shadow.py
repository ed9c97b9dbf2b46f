"""`fairlead shadow`: compare the shadow with the engine that enforces the policies."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli import component_options
from fairlead.cli.component_options import FILE
from fairlead.deployment import component_flags as flags
from fairlead.engines.shadow import server


@click.command()
@component_options.kubeconfig
@component_options.listen
@component_options.tls_cert_file
@component_options.tls_private_key_file
@click.option(flags.OPA_URL, required=True, help="The URL at which API servers ask OPA.")
@click.option(flags.OPA_CA_FILE, type=FILE, required=True, help="The CA to verify OPA by.")
@click.option(flags.MATCHER, type=FILE, required=True, help="The program fairlead-matcher.")
@component_options.log_level
def command(
    kubeconfig: Path | None,
    listen: tuple[str, int],
    tls_cert_file: Path,
    tls_private_key_file: Path,
    opa_url: str,
    opa_ca_file: Path,
    matcher: Path,
    log_level: str,
) -> None:
    """Compare the shadow of a deployment with the engine that enforces the policies.

    `fairlead deploy --engine opa,cel` starts it in the cluster. API servers tell it of requests at
    POST /intents/NAME. It answers at once, allows all of them, and asks both engines about them
    afterwards. It reports where they disagree in the ConfigMap fairlead-shadow, which `fairlead
    status` reads, and serves /health and /metrics.
    """
    host, port = listen
    server.run(
        server.Options(
            host=host,
            port=port,
            certificate=tls_cert_file,
            key=tls_private_key_file,
            kubeconfig=kubeconfig,
            opa_url=opa_url,
            opa_ca=opa_ca_file,
            matcher=matcher,
            log_level=component_options.server_level(log_level),
        )
    )

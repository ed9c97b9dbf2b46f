"""The options that `fairlead sync`, `controller` and `serve` share, and their log.

Durations are read here for all commands.
"""

from __future__ import annotations

import logging
import sys
from datetime import timedelta
from pathlib import Path

import click

from fairlead.common import durations
from fairlead.common.errors import UsageError
from fairlead.deployment import component_flags as flags

FILE = click.Path(path_type=Path, dir_okay=False)

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}

settings = click.option(
    "--settings",
    "settings_file",
    type=click.Path(path_type=Path),
    help="The settings file.  [default: FAIRLEAD_SETTINGS, or fairlead.yaml of the working "
    "directory or else of the checkout]",
)
kubeconfig = click.option(
    flags.KUBECONFIG, type=FILE, help="The kubeconfig to use, instead of the pod's service account."
)


def duration(_: click.Context, option: click.Parameter, text: str | None) -> timedelta | None:
    """The duration that an option is given; None without one. Raises UsageError."""
    try:
        return None if text is None else durations.parse(text)
    except ValueError as error:
        raise UsageError(f"{option.opts[0]}: {error}") from error


def _address(_: click.Context, __: click.Parameter, value: str) -> tuple[str, int]:
    host, colon, port = value.rpartition(":")
    if not (host and colon and port.isdigit() and int(port) < 65536):
        raise UsageError(f"{flags.LISTEN}: {value!r} is not an address such as 127.0.0.1:8443")
    return host.strip("[]"), int(port)


listen = click.option(
    flags.LISTEN,
    default="127.0.0.1:8443",
    show_default=True,
    metavar="HOST:PORT",
    callback=_address,
    help="The address to serve at.",
)
tls_cert_file = click.option(
    flags.TLS_CERT_FILE,
    type=FILE,
    required=True,
    help="The certificate to serve with; read again when it changes.",
)
tls_private_key_file = click.option(
    flags.TLS_PRIVATE_KEY_FILE, type=FILE, required=True, help="The key of the certificate."
)
opa_ca_file = click.option(
    flags.OPA_CA_FILE,
    type=FILE,
    help="The CA that issued OPA's certificate, instead of the system's CAs.",
)
health_endpoint = click.option(
    flags.HEALTH_ENDPOINT, required=True, help="host:port to serve /health and /metrics at."
)
log_level = click.option(
    "--log-level",
    type=click.Choice(list(_LEVELS)),
    default="info",
    show_default=True,
    help="The least severe messages to log.",
)


def server_level(level: str) -> str:
    """The level as servers of webhooks name it."""
    return {"warn": "warning"}.get(level, level)


def log(level: str) -> None:
    """Write plain lines to stderr, of this package only: in their debug logs, the libraries of
    clients show headers, which hold tokens.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("fairlead").setLevel(_LEVELS[level])
    logging.getLogger("urllib3").setLevel(logging.ERROR)

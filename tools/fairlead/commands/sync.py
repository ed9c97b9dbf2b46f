"""`fairlead sync`: OPA's sidecar."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import click

from fairlead import labels
from fairlead.errors import UsageError
from fairlead.sync import selector
from fairlead.sync.sidecar import Options, Sidecar

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option("--kubeconfig", type=FILE, help="The kubeconfig to use, instead of the pod's service account.")
@click.option("--opa-url", default="https://127.0.0.1:8443", show_default=True, help="Address of OPA's API.")
@click.option("--opa-ca-file", type=FILE, help="The authority that signed OPA's certificate, instead of the system's.")
@click.option("--opa-auth-token-file", type=FILE, help="The token for OPA's API; read again when it changes.")
@click.option(
    "--policy-label", default="openpolicyagent.org/policy", show_default=True, help="Label of ConfigMaps with policies."
)
@click.option("--policy-value", default="rego", show_default=True, help="Its value.")
@click.option(
    "--data-label", default="openpolicyagent.org/data", show_default=True, help="Label of ConfigMaps with data."
)
@click.option("--data-value", default="opa", show_default=True, help="Its value.")
@click.option("--enable-policies/--no-enable-policies", default=True, help="Whether to load policies from ConfigMaps.")
@click.option("--enable-data/--no-enable-data", default=True, help="Whether to load data from ConfigMaps.")
@click.option(
    "--namespaces",
    multiple=True,
    default=["fairlead"],
    show_default=True,
    help="Where ConfigMaps are read: names with commas between them, or '*' for all; may be repeated.",
)
@click.option(
    "--replicate-path", default="kubernetes", show_default=True, help="Where in OPA's data namespaces are put."
)
@click.option("--namespace-selector", default="", help="Label selector of the namespaces to replicate; all by default.")
@click.option(
    "--namespace-labels",
    multiple=True,
    default=["agentpool"],
    show_default=True,
    help="Labels of a namespace to keep, with commas between them; nothing else of it is.",
)
@click.option("--health-endpoint", help="host:port to serve /health, /metrics and look-ups at; nowhere by default.")
@click.option("--tls-cert-file", type=FILE, help="The certificate to serve with; read again when it changes.")
@click.option("--tls-private-key-file", type=FILE, help="The key of the certificate.")
@click.option("--log-level", type=click.Choice(list(LEVELS)), default="info", show_default=True, help="What to log.")
def command(
    kubeconfig: Path | None,
    opa_url: str,
    opa_ca_file: Path | None,
    opa_auth_token_file: Path | None,
    policy_label: str,
    policy_value: str,
    data_label: str,
    data_value: str,
    enable_policies: bool,
    enable_data: bool,
    namespaces: tuple[str, ...],
    replicate_path: str,
    namespace_selector: str,
    namespace_labels: tuple[str, ...],
    health_endpoint: str | None,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    log_level: str,
) -> None:
    """Run as OPA's sidecar: keep its policies and data current.

    Policies and data come from labelled ConfigMaps, as with kube-mgmt, whose annotation tells what came of them; of
    namespaces OPA gets the name and the labels asked for. An OPA that restarted is loaded again within seconds.
    """
    if bool(health_endpoint) != bool(tls_cert_file) or bool(tls_cert_file) != bool(tls_private_key_file):
        raise UsageError("--health-endpoint, --tls-cert-file and --tls-private-key-file go together: give all or none")
    keys = _list("--namespace-labels", namespace_labels)
    for flag, key in [
        ("--policy-label", policy_label),
        ("--data-label", data_label),
        *(("--namespace-labels", key) for key in keys),
    ]:
        _check(flag, labels.check_key, key)
    _check("--namespace-selector", selector.check, namespace_selector)
    for flag, value in [("--policy-value", policy_value), ("--data-value", data_value)]:
        _check(flag, labels.check_value, value)
    path = tuple(filter(None, replicate_path.split("/")))
    if not path or path[0] == "system":
        raise UsageError("--replicate-path is empty or below `system`, which is OPA's own")
    sidecar = Sidecar(
        Options(
            kubeconfig=kubeconfig,
            opa_url=opa_url,
            opa_ca_file=opa_ca_file,
            opa_auth_token_file=opa_auth_token_file,
            policy=(policy_label, policy_value) if enable_policies else None,
            data=(data_label, data_value) if enable_data else None,
            namespaces=_list("--namespaces", namespaces),
            replicate_path=path,
            namespace_selector=namespace_selector,
            namespace_labels=keys,
            health_endpoint=health_endpoint,
            certificate=(tls_cert_file, tls_private_key_file) if tls_cert_file and tls_private_key_file else None,
        )
    )
    _log(LEVELS[log_level])
    try:
        sidecar.run(Event())
    except KeyboardInterrupt:
        logging.getLogger("fairlead.sync").info("ending")


def _list(flag: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """What was given with commas, or by repeating the flag, or both; each once, in order."""
    parts = tuple(dict.fromkeys(part.strip() for value in values for part in value.split(",") if part.strip()))
    if not parts:
        raise UsageError(f"{flag} is empty")
    return parts


def _check(flag: str, check: Callable[[str], str], value: str) -> None:
    try:
        check(value)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


def _log(level: int) -> None:
    """Plain lines on stderr, of this package only: the clients' own loggers tell headers when they debug."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("fairlead").setLevel(level)
    logging.getLogger("urllib3").setLevel(logging.ERROR)

"""`fairlead sync`: run as OPA's sidecar."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import click

from fairlead.cli import component_options
from fairlead.cli.component_options import FILE
from fairlead.common.errors import UsageError
from fairlead.deployment import component_flags as flags
from fairlead.kube import labels, resources
from fairlead.kube.resources import Resource
from fairlead.opa.api import OpaApi
from fairlead.settings.models import STALENESS
from fairlead.sync import selector_syntax, statuses
from fairlead.sync.sidecar import Options, Sidecar


@click.command()
@component_options.kubeconfig
@click.option(
    flags.OPA_URL, default=Options.opa_url, show_default=True, help="Address of OPA's API."
)
@component_options.opa_ca_file
@click.option(
    flags.OPA_AUTH_TOKEN_FILE,
    type=FILE,
    help="The token for OPA's API; read again when it changes.",
)
@click.option(
    flags.NAMESPACE_SELECTOR,
    default=Options.namespace_selector,
    help="Label selector of the namespaces to replicate.  [default: all]",
)
@click.option(
    flags.NAMESPACE_LABELS,
    multiple=True,
    default=Options.namespace_labels,
    show_default=True,
    help="Labels of a namespace to replicate, separated by commas; besides its name, nothing else "
    "is replicated.",
)
@click.option(
    flags.REPLICATE,
    multiple=True,
    help="Further namespaced resources to replicate, as group/version/resource or, for the core "
    "group, v1/pods; separated by commas; may be repeated.",
)
@click.option(
    flags.REPLICATE_CLUSTER, multiple=True, help="Further cluster-scoped resources to replicate."
)
@click.option(
    flags.REPLICATE_FIELDS,
    multiple=True,
    metavar="RESOURCE=PATHS",
    help="Replicate only these dotted paths of a resource, separated by commas, instead of whole "
    "objects.",
)
@click.option(
    "--system-policies",
    default=Options.system,
    show_default=True,
    help="The only ConfigMap (namespace/name) whose policies may define the package system; '*' "
    "for any.",
)
@click.option(
    "--replica", help="This replica's name in the status of ConfigMaps.  [default: the host name]"
)
@click.option(
    flags.HEALTH_ENDPOINT,
    help="host:port to serve /health, /metrics and lookups at.  [default: none]",
)
@click.option(
    flags.TLS_CERT_FILE,
    type=FILE,
    help="The certificate to serve with; read again when it changes.",
)
@click.option(flags.TLS_PRIVATE_KEY_FILE, type=FILE, help="The key of the certificate.")
@click.option(
    flags.LOG_DECISIONS,
    is_flag=True,
    help="Write each decision that OPA uploads to stdout, as a line of JSON.",
)
@click.option(
    flags.MAX_STALENESS,
    type=click.IntRange(STALENESS[0], STALENESS[1]),
    metavar="SECONDS",
    help="Confirm OPA's data again within this time.  [default: about a minute]",
)
@component_options.log_level
def command(
    kubeconfig: Path | None,
    opa_url: str,
    opa_ca_file: Path | None,
    opa_auth_token_file: Path | None,
    namespace_selector: str,
    namespace_labels: tuple[str, ...],
    replicate: tuple[str, ...],
    replicate_cluster: tuple[str, ...],
    replicate_fields: tuple[str, ...],
    system_policies: str,
    replica: str | None,
    health_endpoint: str | None,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    log_decisions: bool,
    max_staleness: int | None,
    log_level: str,
) -> None:
    """Run as OPA's sidecar: keep its policies and data current.

    As with kube-mgmt, policies and data come from labelled ConfigMaps, and an annotation of each
    ConfigMap shows whether OPA accepted it. OPA gets the name and the chosen labels of namespaces,
    and whole objects or chosen fields of further resources. After a restart, OPA is loaded again
    within seconds.
    """
    if bool(health_endpoint) != bool(tls_cert_file) or bool(tls_cert_file) != bool(
        tls_private_key_file
    ):
        raise UsageError(
            "--health-endpoint, --tls-cert-file and --tls-private-key-file belong together: give "
            "all of them or none"
        )
    keys = _list(flags.NAMESPACE_LABELS, namespace_labels)
    for key in keys:
        _check(flags.NAMESPACE_LABELS, labels.check_key, key)
    _check(flags.NAMESPACE_SELECTOR, selector_syntax.check, namespace_selector)
    if system_policies != "*" and system_policies.count("/") != 1:
        raise UsageError(
            f"--system-policies: {system_policies!r} is neither namespace/name nor '*'"
        )
    if replica is not None and replica != statuses.replica(replica):
        raise UsageError(
            f"--replica: {replica!r} is not at most 63 letters, digits, '-', '_' and '.'"
        )
    sidecar = Sidecar(
        Options(
            kubeconfig=kubeconfig,
            opa_url=opa_url,
            opa_ca_file=opa_ca_file,
            opa_auth_token_file=opa_auth_token_file,
            namespace_selector=namespace_selector,
            namespace_labels=keys,
            resources=_resources(replicate, replicate_cluster, replicate_fields),
            system=None if system_policies == "*" else system_policies,
            replica=replica or _replica(opa_url, alone=kubeconfig is None),
            health_endpoint=health_endpoint,
            log_decisions=_write if log_decisions else None,
            max_staleness=max_staleness,
            certificate=(tls_cert_file, tls_private_key_file)
            if tls_cert_file and tls_private_key_file
            else None,
        )
    )
    component_options.log(log_level)
    try:
        sidecar.run(Event())
    except KeyboardInterrupt:
        logging.getLogger("fairlead.sync").info("ending")


def _replica(opa_url: str, *, alone: bool) -> str:
    """The host name, which is the pod's name. If several sidecars can share the host, OPA's port
    follows. Raises UsageError if `opa_url` is invalid.
    """
    host = socket.gethostname()
    return statuses.replica(host if alone else f"{host}-{OpaApi(opa_url).url.rpartition(':')[2]}")


def _resources(
    namespaced: tuple[str, ...], cluster: tuple[str, ...], fields: tuple[str, ...]
) -> tuple[Resource, ...]:
    """The resources of --replicate, --replicate-cluster and --replicate-fields. Raises UsageError
    if a value is invalid.
    """
    field_lists: dict[str, list[str]] = {}
    for value in fields:
        name, equals, paths = value.partition("=")
        if not equals:
            raise UsageError(
                f"--replicate-fields: {value!r} is not like v1/pods=spec.nodeName,metadata.labels"
            )
        field_lists.setdefault(name, []).extend(_list(flags.REPLICATE_FIELDS, (paths,)))
    replicated = []
    for flag, values in ((flags.REPLICATE, namespaced), (flags.REPLICATE_CLUSTER, cluster)):
        for text in _list(flag, values, empty=True):
            try:
                replicated.append(
                    resources.parse(
                        text, namespaced=flag == flags.REPLICATE, fields=field_lists.pop(text, ())
                    )
                )
                resources.check_distinct(replicated)
            except ValueError as error:
                raise UsageError(f"{flag}: {error}") from error
    if field_lists:
        raise UsageError(
            f"--replicate-fields: {', '.join(field_lists)} is not replicated: add it to --replicate"
        )
    return tuple(replicated)


def _list(flag: str, values: tuple[str, ...], *, empty: bool = False) -> tuple[str, ...]:
    """The values of a flag that takes commas and repetitions: each once, in order. Raises
    UsageError if there is none, unless `empty`.
    """
    parts = tuple(
        dict.fromkeys(part.strip() for value in values for part in value.split(",") if part.strip())
    )
    if not parts and not empty:
        raise UsageError(f"{flag} is empty")
    return parts


def _check(flag: str, check: Callable[[str], str], value: str) -> None:
    try:
        check(value)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


def _write(line: str) -> None:
    """Write a line to stdout and flush it."""
    sys.stdout.write(line)
    sys.stdout.flush()

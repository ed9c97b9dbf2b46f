"""`fairlead sync`: OPA's sidecar."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import click

from fairlead.cli import renewals, sidecar_options
from fairlead.cli.sidecar_options import FILE
from fairlead.common.errors import UsageError
from fairlead.deployment import sidecar_flags as flags
from fairlead.deployment.names import DATA_LABEL, POLICY_LABEL
from fairlead.kube import labels, resources
from fairlead.kube.resources import Resource
from fairlead.opa.api import OpaApi
from fairlead.settings.models import STALENESS
from fairlead.sync import selectors, statuses
from fairlead.sync.sidecar import Options, Sidecar


@click.command()
@sidecar_options.kubeconfig
@click.option(
    flags.OPA_URL, default=Options.opa_url, show_default=True, help="Address of OPA's API."
)
@click.option(
    flags.OPA_CA_FILE,
    type=FILE,
    help="The authority that signed OPA's certificate, instead of the system's.",
)
@click.option(
    flags.OPA_AUTH_TOKEN_FILE,
    type=FILE,
    help="The token for OPA's API; read again when it changes.",
)
@click.option(
    "--policy-label",
    default=POLICY_LABEL[0],
    show_default=True,
    help="Label of ConfigMaps with policies.",
)
@click.option("--policy-value", default=POLICY_LABEL[1], show_default=True, help="Its value.")
@click.option(
    "--data-label", default=DATA_LABEL[0], show_default=True, help="Label of ConfigMaps with data."
)
@click.option("--data-value", default=DATA_LABEL[1], show_default=True, help="Its value.")
@click.option(
    "--enable-policies/--no-enable-policies",
    default=True,
    help="Whether to load policies from ConfigMaps.",
)
@click.option(
    "--enable-data/--no-enable-data", default=True, help="Whether to load data from ConfigMaps."
)
@click.option(
    "--namespaces",
    multiple=True,
    default=Options.namespaces,
    show_default=True,
    help="Where ConfigMaps are read: names with commas between them, or '*' for all; may be "
    "repeated.",
)
@click.option(
    "--replicate-path",
    default="/".join(Options.replicate_path),
    show_default=True,
    help="Where in OPA's data namespaces are put.",
)
@click.option(
    flags.NAMESPACE_SELECTOR,
    default=Options.namespace_selector,
    help="Label selector of the namespaces to replicate; all by default.",
)
@click.option(
    flags.NAMESPACE_LABELS,
    multiple=True,
    default=Options.namespace_labels,
    show_default=True,
    help="Labels of a namespace to keep, with commas between them; nothing else of it is.",
)
@click.option(
    flags.REPLICATE,
    multiple=True,
    help="A namespaced resource to replicate as well, group/version/resource, or v1/pods of the "
    "core; with commas "
    "between them; may be repeated.",
)
@click.option(
    flags.REPLICATE_CLUSTER, multiple=True, help="The same of resources that are in no namespace."
)
@click.option(
    flags.REPLICATE_FIELDS,
    multiple=True,
    metavar="RESOURCE=PATHS",
    help="Of a resource to replicate only these dotted paths, with commas between them, instead of "
    "whole objects.",
)
@click.option(
    "--replicate-ignore-namespaces",
    multiple=True,
    help="Namespaces whose objects are not replicated, with commas between them.",
)
@click.option(
    "--system-policies",
    default=Options.system,
    show_default=True,
    help="The ConfigMap, namespace/name, whose policies alone may define the package system; '*' "
    "for any.",
)
@click.option(
    "--replica", help="This replica's name in the status of ConfigMaps; the host's by default."
)
@click.option(
    flags.HEALTH_ENDPOINT,
    help="host:port to serve /health, /metrics and look-ups at; nowhere by default.",
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
    help="Within how long all that OPA holds is confirmed again; about a minute by default.",
)
@renewals.options
@sidecar_options.log_level
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
    replicate: tuple[str, ...],
    replicate_cluster: tuple[str, ...],
    replicate_fields: tuple[str, ...],
    replicate_ignore_namespaces: tuple[str, ...],
    system_policies: str,
    replica: str | None,
    health_endpoint: str | None,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    log_decisions: bool,
    max_staleness: int | None,
    renewal: renewals.Renewal | None,
    log_level: str,
) -> None:
    """Run as OPA's sidecar: keep its policies and data current.

    Policies and data come from labelled ConfigMaps, as with kube-mgmt, whose annotation tells what
    came of them; of namespaces OPA gets the name and the labels asked for, of further resources
    whole objects or the fields asked for. An OPA that restarted is loaded again within seconds.
    """
    if bool(health_endpoint) != bool(tls_cert_file) or bool(tls_cert_file) != bool(
        tls_private_key_file
    ):
        raise UsageError(
            "--health-endpoint, --tls-cert-file and --tls-private-key-file go together: give all "
            "or none"
        )
    keys = _list(flags.NAMESPACE_LABELS, namespace_labels)
    for flag, key in [
        ("--policy-label", policy_label),
        ("--data-label", data_label),
        *((flags.NAMESPACE_LABELS, key) for key in keys),
    ]:
        _check(flag, labels.check_key, key)
    _check(flags.NAMESPACE_SELECTOR, selectors.check, namespace_selector)
    for flag, value in [("--policy-value", policy_value), ("--data-value", data_value)]:
        _check(flag, labels.check_value, value)
    path = tuple(filter(None, replicate_path.split("/")))
    if not path or path[0] == "system":
        raise UsageError("--replicate-path is empty or below `system`, which is OPA's own")
    if system_policies != "*" and system_policies.count("/") != 1:
        raise UsageError(
            f"--system-policies: {system_policies!r} is not namespace/name, and not '*'"
        )
    if replica is not None and replica != statuses.replica(replica):
        raise UsageError(
            f"--replica: {replica!r} is not at most 63 letters, digits, '-', '_' and '.'"
        )
    ignored = _list("--replicate-ignore-namespaces", replicate_ignore_namespaces, empty=True)
    for name in ignored:
        _check("--replicate-ignore-namespaces", labels.check_value, name)
    replica_name = replica or _replica(opa_url, alone=kubeconfig is None)
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
            resources=_resources(replicate, replicate_cluster, replicate_fields),
            ignored=ignored,
            system=None if system_policies == "*" else system_policies,
            replica=replica_name,
            health_endpoint=health_endpoint,
            log_decisions=_write if log_decisions else None,
            max_staleness=max_staleness,
            certificate=(tls_cert_file, tls_private_key_file)
            if tls_cert_file and tls_private_key_file
            else None,
        )
    )
    if renewal:
        sidecar.accompany(
            renewals.keeper(renewal, kubeconfig, replica=replica_name, registry=sidecar.registry)
        )
    sidecar_options.log(log_level)
    try:
        sidecar.run(Event())
    except KeyboardInterrupt:
        logging.getLogger("fairlead.sync").info("ending")


def _replica(opa_url: str, *, alone: bool) -> str:
    """The name of the host, which is the pod's; where that may hold several, with OPA's port.
    Raises UsageError.
    """
    host = socket.gethostname()
    return statuses.replica(host if alone else f"{host}-{OpaApi(opa_url).url.rpartition(':')[2]}")


def _resources(
    namespaced: tuple[str, ...], cluster: tuple[str, ...], fields: tuple[str, ...]
) -> tuple[Resource, ...]:
    """What --replicate, --replicate-cluster and --replicate-fields name. Raises UsageError."""
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
            f"--replicate-fields: {', '.join(field_lists)} is not replicated: name it with "
            "--replicate, too"
        )
    return tuple(replicated)


def _list(flag: str, values: tuple[str, ...], *, empty: bool = False) -> tuple[str, ...]:
    """What was given with commas, or by repeating the flag, or both; each once, in order. Raises
    UsageError.
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
    """One line to stdout, now."""
    sys.stdout.write(line)
    sys.stdout.flush()

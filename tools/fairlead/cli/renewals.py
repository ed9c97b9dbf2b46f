"""The options of certificate renewal, and the keeper that they describe."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from prometheus_client import CollectorRegistry

from fairlead.common import durations
from fairlead.common.errors import UsageError
from fairlead.deployment import sidecar_flags as flags
from fairlead.keeper import servers
from fairlead.keeper.keeper import MANAGER, Keeper
from fairlead.kube.apiserver import ApiServer

_OPTIONS = (
    click.option(
        flags.CERTIFICATE_LIFE,
        metavar="DURATION",
        help="Renew OPA's certificate by such that last so long, as 90d; without it nothing is "
        "renewed.",
    ),
    click.option(
        flags.RENEW_BEFORE,
        metavar="DURATION",
        help="What is left of a certificate when it is renewed.  [default: a third of its life]",
    ),
    click.option(
        flags.OPAS,
        metavar="HOST:PORT,...",
        help="Where OPAs show the certificate, instead of the pods with the label "
        "app.kubernetes.io/name=opa.",
    ),
    click.option(
        flags.SIDECARS, metavar="HOST:PORT,...", help="Where their sidecars do, if --opas is given."
    ),
)


@dataclass(frozen=True)
class Renewal:
    """What the options say; `named` are OPAs and sidecars where they are no pods."""

    valid: timedelta
    before: timedelta
    named: tuple[list[tuple[str, int]], list[tuple[str, int]]] | None


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options; the command gets them as `renewal`, None where nothing is to be renewed."""

    @functools.wraps(command)
    def chosen(
        *arguments: Any,
        certificate_life: str | None,
        renew_before: str | None,
        opas: str | None,
        sidecars: str | None,
        **others: Any,
    ) -> Any:
        return command(
            *arguments, renewal=_renewal(certificate_life, renew_before, opas, sidecars), **others
        )

    for option in reversed(_OPTIONS):
        chosen = option(chosen)
    return chosen


def keeper(
    renewal: Renewal,
    kubeconfig: Path | None,
    *,
    replica: str,
    registry: CollectorRegistry,
    rolls: bool = False,
) -> Keeper:
    """What renews; with `rolls` pods are replaced by such as read the new authorities. Raises
    UsageError.
    """
    api = ApiServer(kubeconfig)
    listed = servers.named(*renewal.named) if renewal.named else servers.pods(api)
    serving = servers.Serving(listed, pause=0.1 if renewal.named else 1.0)
    if rolls:
        serving = servers.Rolled(api, listed, manager=MANAGER)
    return Keeper(
        api, serving, valid=renewal.valid, before=renewal.before, replica=replica, registry=registry
    )


def _renewal(
    life: str | None, before: str | None, opas: str | None, sidecars: str | None
) -> Renewal | None:
    if life is None:
        given = {flags.RENEW_BEFORE: before, flags.OPAS: opas, flags.SIDECARS: sidecars}
        for flag, value in given.items():
            if value:
                raise UsageError(
                    f"{flag} is for who renews the certificate: give --certificate-life too"
                )
        return None
    if sidecars and not opas:
        raise UsageError("--sidecars goes with --opas")
    valid = _duration(flags.CERTIFICATE_LIFE, life)
    lead = _duration(flags.RENEW_BEFORE, before) if before else valid / 3
    if lead >= valid:
        raise UsageError(f"--renew-before {before}: is not shorter than the life of {life}")
    addresses = (
        (_addresses(flags.OPAS, opas), _addresses(flags.SIDECARS, sidecars or "")) if opas else None
    )
    return Renewal(valid, lead, addresses)


def _duration(flag: str, text: str) -> timedelta:
    try:
        return durations.parse(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


def _addresses(flag: str, text: str) -> list[tuple[str, int]]:
    addresses = []
    for part in filter(None, text.split(",")):
        host, colon, port = part.rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
            raise UsageError(f"{flag}: {part!r} is not host:port")
        addresses.append((host.strip("[]"), int(port)))
    return addresses

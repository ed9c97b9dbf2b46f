"""The options of `fairlead controller` for certificate renewal, and what is built from them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from prometheus_client import CollectorRegistry

from fairlead.cli.component_options import duration
from fairlead.common import durations
from fairlead.common.errors import UsageError
from fairlead.deployment import component_flags as flags
from fairlead.deployment.names import CONTROLLER
from fairlead.keeper import servers
from fairlead.keeper.keeper import Keeper
from fairlead.kube.api_requests import BRIEF, ApiRequests

_OPTIONS = (
    click.option(
        flags.CERTIFICATE_LIFE,
        metavar="DURATION",
        callback=duration,
        help="Renew OPA's certificate, with new ones that last so long, such as 90d. Without this "
        "option nothing is renewed.",
    ),
    click.option(
        flags.RENEW_BEFORE,
        metavar="DURATION",
        callback=duration,
        help="Renew a certificate so long before its end.  [default: a third of its life]",
    ),
    click.option(
        flags.OPAS,
        metavar="HOST:PORT,...",
        help="The OPAs that serve with the certificate, instead of the pods with the label "
        "app.kubernetes.io/name=opa.",
    ),
    click.option(
        flags.SIDECARS, metavar="HOST:PORT,...", help="The sidecars of these OPAs; requires --opas."
    ),
    click.option(
        flags.ROLL_OUT,
        is_flag=True,
        help="Restart OPA's pods so that they read the new CA: for kube-mgmt.",
    ),
)


@dataclass(frozen=True)
class Renewal:
    """The values of the options. `named` are the OPAs and sidecars if they are not pods; if the
    renewal `rolls`, it restarts OPA's pods so that they read the new CA.
    """

    valid: timedelta
    before: timedelta
    named: tuple[list[tuple[str, int]], list[tuple[str, int]]] | None
    rolls: bool


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets them as `renewal`, None if nothing is to be renewed."""

    @functools.wraps(command)
    def wrapper(
        *arguments: Any,
        certificate_life: timedelta | None,
        renew_before: timedelta | None,
        opas: str | None,
        sidecars: str | None,
        roll_out: bool,
        **keywords: Any,
    ) -> Any:
        renewal = _renewal(certificate_life, renew_before, opas, sidecars, roll_out)
        return command(*arguments, renewal=renewal, **keywords)

    for option in reversed(_OPTIONS):
        wrapper = option(wrapper)
    return wrapper


def keeper(
    renewal: Renewal,
    kubeconfig: Path | None,
    *,
    replica: str,
    registry: CollectorRegistry,
) -> Keeper:
    """The keeper for these options. Raises UsageError if the kubeconfig is unusable."""
    api = ApiRequests(kubeconfig, timeout=BRIEF)
    list_servers = servers.named(*renewal.named) if renewal.named else servers.pods(api)
    serving = servers.Serving(list_servers, pause=0.1 if renewal.named else 1.0)
    if renewal.rolls:
        serving = servers.Rolled(api, list_servers, manager=CONTROLLER)
    return Keeper(
        api, serving, valid=renewal.valid, before=renewal.before, replica=replica, registry=registry
    )


def _renewal(
    life: timedelta | None,
    before: timedelta | None,
    opas: str | None,
    sidecars: str | None,
    rolls: bool,
) -> Renewal | None:
    if life is None:
        values = {
            flags.RENEW_BEFORE: before,
            flags.OPAS: opas,
            flags.SIDECARS: sidecars,
            flags.ROLL_OUT: rolls,
        }
        for flag, value in values.items():
            if value:
                raise UsageError(
                    f"{flag} has no effect without a renewal: give --certificate-life too"
                )
        return None
    if sidecars and not opas:
        raise UsageError("--sidecars needs --opas: give both")
    lead = before or life / 3
    if lead >= life:
        raise UsageError(
            f"--renew-before {durations.text(lead)}: give a time that is shorter than the life of "
            f"{durations.text(life)}"
        )
    addresses = (
        (_addresses(flags.OPAS, opas), _addresses(flags.SIDECARS, sidecars or "")) if opas else None
    )
    return Renewal(life, lead, addresses, rolls)


def _addresses(flag: str, text: str) -> list[tuple[str, int]]:
    addresses = []
    for part in filter(None, text.split(",")):
        host, colon, port = part.rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
            raise UsageError(f"{flag}: {part!r} is not host:port")
        addresses.append((host.strip("[]"), int(port)))
    return addresses

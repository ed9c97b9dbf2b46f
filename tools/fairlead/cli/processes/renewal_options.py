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
from fairlead.cli.processes.server_options import Servers
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
        flags.ROLL_OUT,
        is_flag=True,
        help="Restart OPA's pods so that they read the new CA: for kube-mgmt.",
    ),
)


@dataclass(frozen=True)
class Renewal:
    """The values of the options. If the renewal `rolls`, it restarts OPA's pods so that they read
    the new CA.
    """

    valid: timedelta
    before: timedelta
    rolls: bool


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets them as `renewal`, None if nothing is to be renewed."""

    @functools.wraps(command)
    def wrapper(
        *arguments: Any,
        certificate_life: timedelta | None,
        renew_before: timedelta | None,
        roll_out: bool,
        **keywords: Any,
    ) -> Any:
        renewal = _renewal(certificate_life, renew_before, roll_out)
        return command(*arguments, renewal=renewal, **keywords)

    for option in reversed(_OPTIONS):
        wrapper = option(wrapper)
    return wrapper


def keeper(
    renewal: Renewal,
    kubeconfig: Path | None,
    decides: Servers,
    *,
    replica: str,
    registry: CollectorRegistry,
) -> Keeper:
    """The keeper for these options, and the servers that use the certificate. Raises UsageError if
    the kubeconfig is unusable.
    """
    api = ApiRequests(kubeconfig, timeout=BRIEF)
    list_servers = decides.listed(api)
    serving = servers.Serving(list_servers, pause=1.0 if decides.named is None else 0.1)
    if renewal.rolls:
        serving = servers.Rolled(api, list_servers, manager=CONTROLLER)
    return Keeper(
        api, serving, valid=renewal.valid, before=renewal.before, replica=replica, registry=registry
    )


def _renewal(life: timedelta | None, before: timedelta | None, rolls: bool) -> Renewal | None:
    if life is None:
        for flag, value in {flags.RENEW_BEFORE: before, flags.ROLL_OUT: rolls}.items():
            if value:
                raise UsageError(
                    f"{flag} has no effect without a renewal: give --certificate-life too"
                )
        return None
    lead = before or life / 3
    if lead >= life:
        raise UsageError(
            f"--renew-before {durations.text(lead)}: give a time that is shorter than the life of "
            f"{durations.text(life)}"
        )
    return Renewal(life, lead, rolls)

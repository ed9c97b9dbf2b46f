"""The options of `fairlead controller` that name the servers that decide."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from fairlead.common.errors import UsageError
from fairlead.deployment import component_flags as flags
from fairlead.keeper import servers
from fairlead.kube.api_requests import ApiRequests

_OPTIONS = (
    click.option(
        flags.OPAS,
        metavar="HOST:PORT,...",
        help="The OPAs of the cluster, instead of the pods with the label "
        "app.kubernetes.io/name=opa.",
    ),
    click.option(
        flags.SIDECARS, metavar="HOST:PORT,...", help="The sidecars of these OPAs; requires --opas."
    ),
)


@dataclass(frozen=True)
class Servers:
    """The OPAs and their sidecars: those `named`, or pods if that is None."""

    named: tuple[list[tuple[str, int]], list[tuple[str, int]]] | None

    def listed(self, api: ApiRequests) -> Callable[[], list[servers.Server]]:
        """A function that lists them."""
        return servers.pods(api) if self.named is None else servers.named(*self.named)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets them as `decides`."""

    @functools.wraps(command)
    def wrapper(*arguments: Any, opas: str | None, sidecars: str | None, **keywords: Any) -> Any:
        if sidecars and not opas:
            raise UsageError("--sidecars needs --opas: give both")
        named = (
            (_addresses(flags.OPAS, opas), _addresses(flags.SIDECARS, sidecars or ""))
            if opas
            else None
        )
        return command(*arguments, decides=Servers(named), **keywords)

    for option in reversed(_OPTIONS):
        wrapper = option(wrapper)
    return wrapper


def _addresses(flag: str, text: str) -> list[tuple[str, int]]:
    addresses = []
    for part in filter(None, text.split(",")):
        host, colon, port = part.rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
            raise UsageError(f"{flag}: {part!r} is not host:port")
        addresses.append((host.strip("[]"), int(port)))
    return addresses

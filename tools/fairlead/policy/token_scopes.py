"""The scopes of the tokens of OPA's API that open some requests instead of all.

A deployment makes a token for each scope that its settings want (`wanted`), and its authz policy
lets that token make the requests of its scope alone. A further scope is a further line of `SCOPES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fairlead.settings.models import Settings


@dataclass(frozen=True)
class Scope:
    """What a token opens: `requests` are pairs of a method and a path, without a query."""

    name: str
    requests: tuple[tuple[str, str], ...]
    wanted: Callable[[Settings], bool]

    @property
    def opened(self) -> list[tuple[str, list[str]]]:
        """`requests` as policies/authz.rego compares them: a path is the list of its segments."""
        return [(method, path.removeprefix("/").split("/")) for method, path in self.requests]


def _by_name(scopes: Iterable[Scope]) -> dict[str, Scope]:
    return {scope.name: scope for scope in scopes}


SCOPES = _by_name(
    [
        Scope(
            "placement",
            (("POST", "/v1/data/k8s/placement"),),
            wanted=lambda settings: settings.placement,
        ),
        Scope(
            "access",
            (("POST", "/v0/data/controller"),),
            wanted=lambda settings: settings.access is not None,
        ),
    ]
)


def wanted(settings: Settings) -> list[str]:
    """The names of the scopes that a deployment with these settings has a token for."""
    return [name for name, scope in SCOPES.items() if scope.wanted(settings)]

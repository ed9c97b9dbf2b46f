"""The decisions that callers ask OPA for by their path, beside those at admission.

A deployment has one only if its setting is on. It then makes a token for the scope of that name,
and its authz policy lets that token make the requests of the service alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Service:
    """A decision that is asked for by the path of its package.

    `setting` is the field of Settings that brings it, the folder of its policies, and the scope of
    its token. `requests` are pairs of a method and a path, without a query. `labels` are those of
    namespaces that it reads.
    """

    setting: str
    package: str
    requests: tuple[tuple[str, str], ...]
    labels: frozenset[str] = frozenset()

    @property
    def root(self) -> str:
        """The first part of its package."""
        return self.package.split(".", maxsplit=1)[0]


SERVICES = (
    Service(
        "placement", "k8s.placement", (("POST", "/v1/data/k8s/placement"),), frozenset({"customer"})
    ),
    Service("access", "controller", (("POST", "/v0/data/controller"),)),
)
SCOPES = {service.setting: service for service in SERVICES}
"""The services by the scopes of their tokens."""

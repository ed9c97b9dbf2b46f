"""The decisions that callers ask OPA for by their path, beside those at admission.

A deployment has one only if its setting is on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Service:
    """A decision that is asked for by the path of its package.

    `setting` is the field of Settings that brings it, and the folder of its policies. `labels` are
    those of namespaces that it reads.
    """

    setting: str
    package: str
    labels: frozenset[str] = frozenset()

    @property
    def root(self) -> str:
        """The first part of its package."""
        return self.package.split(".", maxsplit=1)[0]


SERVICES = (
    Service("placement", "k8s.placement", frozenset({"customer"})),
    Service("access", "controller"),
)

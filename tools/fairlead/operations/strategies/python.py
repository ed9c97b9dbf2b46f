"""The engine `python`: API servers ask servers that run functions in Python, in OPA's place."""

from __future__ import annotations

from fairlead.deployment import sidecars
from fairlead.deployment.names import PYTHON_ENGINE
from fairlead.engines.python import decisions
from fairlead.operations.strategies.base import Operation, Revision
from fairlead.operations.strategies.opa import Opa
from fairlead.policy.policy_set import PolicySet


class Python(Opa):
    """See Strategy. Everything beside the servers is as with OPA."""

    engine = PYTHON_ENGINE

    def __init__(self, operation: Operation, *, restart: bool = False) -> None:
        super().__init__(operation, sidecars.SERVE, restart=restart)

    def render(self, policies: PolicySet) -> Revision:
        """See Strategy."""
        require(policies)
        return super().render(policies)


def require(policies: PolicySet) -> str:
    """The name of the server in Python. Raises UsageError for settings that the server does not
    know, and for an intent that is not written in Python, and InputError for one that cannot be
    loaded.
    """
    sidecars.SERVE.require(policies.settings)
    decisions.of_policies(policies)
    return sidecars.SERVE.name

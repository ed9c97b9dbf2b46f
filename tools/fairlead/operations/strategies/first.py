"""The first policies of a cluster whose servers others have applied, from the manifests of
`fairlead render --objects`: the controller makes everything else."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.common import waiting
from fairlead.common.errors import UsageError
from fairlead.deployment import controller
from fairlead.deployment.names import OPA
from fairlead.operations import drift
from fairlead.operations.deployed_state import Served
from fairlead.operations.strategies.base import Key, Operation, Revision
from fairlead.operations.strategies.opa import Opa
from fairlead.policy.policy_set import PolicySet

_STARTED = 300.0
"""Seconds in which a server has to run: images are pulled meanwhile."""


class First(Opa):
    """See Strategy. Credentials, policies, guards and webhooks are made, and nothing is deleted."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(operation, operation.cluster.sidecar)

    def render(self, policies: PolicySet) -> Revision:
        """See Strategy. Raises UsageError where another program issues certificates."""
        if policies.settings.certificates.by != "fairlead":
            raise UsageError("certificates by cert-manager need `fairlead deploy`: run it once")
        return super().render(policies)

    def superfluous(self, new: Revision, former: Revision | None) -> list[Key]:
        """See Strategy."""
        return []

    def apply(self, new: Revision, former: Revision | None) -> None:
        """See Strategy."""
        made = [manifest for manifest in new.objects if controller.makes(manifest)]
        self._last = [manifest for manifest in made if manifest["kind"] in drift.COMPARED]
        self._operation.apply(manifest for manifest in made if manifest not in self._last)

    def wait(self, new: Revision) -> list[Served]:
        """See Strategy."""
        progress, cluster = self._operation.progress, self._operation.cluster
        progress.update("policies", f"waiting until a server of the Deployment {OPA} runs")
        waiting.until(cluster.opas, deadline=_STARTED, what=f"a pod of {OPA} runs", pause=1.0)
        return super().wait(new)

    def enforce(self, new: Revision, former: Revision | None) -> list[str]:
        """See Strategy."""
        self._operation.apply(self._last)
        return []

    def remove(self, new: Revision, keys: Sequence[Key]) -> list[str]:
        """See Strategy."""
        return []

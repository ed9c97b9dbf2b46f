"""What the engines have in common whose policies an API server or Kyverno evaluates as CEL."""

from __future__ import annotations

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.engines.base import without_data
from fairlead.policy.case_policies import CasePolicies
from fairlead.policy.cases import Case
from fairlead.policy.policy_set import PolicySet
from lab.engines.cel import inexpressible


class ExpressedInCel:
    """An engine for which the policies of all settings are in force at once: the policies of each
    concern only its own requests, by a group of the user.
    """

    asks_cluster = False

    def __init__(
        self, policies: PolicySet | None = None, cluster: BareCluster | None = None
    ) -> None:
        """Without a cluster, the engine starts one of its own."""
        self._policies = CasePolicies(policies)
        self._cluster = cluster

    def inexpressible(self, case: Case) -> str | None:
        """See fairlead.engines.base.Engine."""
        return without_data(case) or inexpressible.reason(case, self._policies)

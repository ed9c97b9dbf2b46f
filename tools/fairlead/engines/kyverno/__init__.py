"""The engine `kyverno`: Kyverno's policies, which its own admission controller enforces."""

from __future__ import annotations

from typing import Any

from fairlead.engines.cel.policies import require_definitions
from fairlead.engines.kyverno import manifests
from fairlead.policy.policy_set import PolicySet


class KyvernoRenderer:
    """Renders the intents as Kyverno's policies."""

    name = "kyverno"

    def render(self, policies: PolicySet) -> list[dict[str, Any]]:
        """See fairlead.engines.base.Renderer."""
        require_definitions(self.name, policies.active)
        rendered = manifests.render(policies.active, policies.settings)
        return [policy for instance in rendered for policy in instance.policies]

"""The engine `kyverno`: Kyverno's policies, which its own admission controller enforces."""

from __future__ import annotations

from typing import Any

from fairlead.engines.cel.admission_policies import require_definitions
from fairlead.engines.kyverno import manifests
from fairlead.policy.policy_set import PolicySet


def render(policies: PolicySet) -> list[dict[str, Any]]:
    """See fairlead.engines.render."""
    require_definitions("kyverno", policies.active)
    rendered = manifests.render(policies.active, policies.settings)
    return [policy for instance in rendered for policy in instance]

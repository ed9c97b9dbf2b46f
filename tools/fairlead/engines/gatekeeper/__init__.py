"""The engine `gatekeeper`: ConstraintTemplates, Constraints and mutators of Gatekeeper."""

from __future__ import annotations

from typing import Any

from fairlead.engines.base import UnsupportedSettings
from fairlead.engines.gatekeeper import manifests
from fairlead.policy.policy_set import PolicySet


def render(policies: PolicySet) -> list[dict[str, Any]]:
    """See fairlead.engines.render."""
    active, settings, bundle = policies.active, policies.settings, policies.bundle
    if refused := list(manifests.refused(active, settings, bundle)):
        raise UnsupportedSettings(refused)
    return manifests.render(active, settings, bundle)

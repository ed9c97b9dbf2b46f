"""The engine `cel`: admission policies of API servers, without OPA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.engines.cel import manifests
from fairlead.engines.cel.admission_policies import require_definitions
from fairlead.engines.cel.manifests import Rendered
from fairlead.policy.policy_set import PolicySet


def render(policies: PolicySet) -> list[dict[str, Any]]:
    """See fairlead.engines.render."""
    require_definitions("cel", policies.active)
    rendered = manifests.render(policies.active, policies.settings)
    return [
        *definitions(rendered),
        *(instance.parameters for instance in rendered if instance.parameters is not None),
        *(policy for instance in rendered for policy in instance.policies),
        *(binding for instance in rendered for binding in instance.bindings),
    ]


def definitions(rendered: Sequence[Rendered]) -> list[dict[str, Any]]:
    """The kinds of parameters, each once."""
    every = [instance.definition for instance in rendered if instance.definition is not None]
    return list({each["metadata"]["name"]: each for each in every}.values())

"""The engine `kyverno`: Kyverno's policies, which its own admission controller enforces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairlead.engines.cel import policies
from fairlead.engines.kyverno import manifests
from fairlead.policy.instances import Instance
from fairlead.settings.models import Settings


class KyvernoRenderer:
    """Renders the intents as Kyverno's policies."""

    name = "kyverno"

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def render(self, active: Sequence[Instance], settings: Settings) -> list[dict[str, Any]]:
        """See fairlead.engines.base.Renderer."""
        policies.require_definitions(self.name, active)
        rendered = manifests.render(active, settings)
        return [policy for instance in rendered for policy in instance.policies]

"""The engine `gatekeeper`: ConstraintTemplates, Constraints and mutators of Gatekeeper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairlead.engines.base import UnsupportedSettings
from fairlead.engines.gatekeeper import manifests
from fairlead.policy import bundles
from fairlead.policy.instances import Instance
from fairlead.settings.models import Settings


class GatekeeperRenderer:
    """Renders the intents as objects of Gatekeeper."""

    name = "gatekeeper"

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def render(self, active: Sequence[Instance], settings: Settings) -> list[dict[str, Any]]:
        """See fairlead.engines.base.Renderer."""
        bundle = bundles.bundle(settings, self._folder)
        if refused := list(manifests.refused(active, settings, bundle)):
            raise UnsupportedSettings(refused)
        return manifests.in_order(manifests.render(active, settings, bundle))

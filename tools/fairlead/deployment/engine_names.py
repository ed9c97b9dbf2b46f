"""The engines that a cluster can have, and the one that its ConfigMap of the policies names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.deployment.names import CEL_ENGINE, ENGINE_ANNOTATION, OPA_ENGINE, PYTHON_ENGINE

ENGINES = (OPA_ENGINE, CEL_ENGINE, PYTHON_ENGINE)
"""The engines that `fairlead deploy` can put in force."""
ASKED = (OPA_ENGINE, PYTHON_ENGINE)
"""The engines that API servers ask, and that need pods of their own."""


def of(config_map: Mapping[str, Any] | None) -> str:
    """The engine that the ConfigMap of the policies names; `opa` if it names none, as those of
    former versions.
    """
    metadata = (config_map or {}).get("metadata", {})
    return str((metadata.get("annotations") or {}).get(ENGINE_ANNOTATION) or OPA_ENGINE)

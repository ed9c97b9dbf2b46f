"""What the engines do with the policies. Each renders objects by which a cluster enforces them, or
decides itself."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.engines.base import Renderer
from fairlead.policy.policy_set import PolicySet

# Engine -> its class, as module:name. A module is imported when its engine is used.
RENDERERS = {
    "cel": "fairlead.engines.cel:CelRenderer",
    "gatekeeper": "fairlead.engines.gatekeeper:GatekeeperRenderer",
    "kyverno": "fairlead.engines.kyverno:KyvernoRenderer",
}


def render(name: str, policies: PolicySet) -> list[dict[str, Any]]:
    """The objects by which a cluster enforces the policies with the engine of this name, in the
    order in which to apply them.

    Raises UsageError for an engine without such objects, and for an intent that it cannot express.
    """
    if name not in RENDERERS:
        close = difflib.get_close_matches(name, RENDERERS, 1)
        hint = f": did you mean {close[0]!r}?" if close else ""
        raise UsageError(
            f"the engine {name!r} is not put in force by objects of a cluster alone{hint}"
        )
    return renderer(name).render(policies)


def renderer(name: str) -> Renderer:
    """The engine of this name, which renders objects."""
    module, _, kind = RENDERERS[name].partition(":")
    engine: Renderer = getattr(importlib.import_module(module), kind)()
    return engine

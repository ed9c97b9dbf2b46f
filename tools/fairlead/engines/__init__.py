"""What the engines do with the policies. Each renders objects by which a cluster enforces them, or
decides itself."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.policy.policy_set import PolicySet

RENDERERS = ("cel", "gatekeeper", "kyverno")
"""The engines that are put in force by objects of a cluster, without a program of Fairlead's. Each
is a package with the function `render`, and is imported when it is used."""


def render(name: str, policies: PolicySet) -> list[dict[str, Any]]:
    """The objects by which a cluster enforces the policies with the engine of this name, in the
    order in which to apply them; the same ones for the same policies.

    Raises InputError, and UsageError for an engine without such objects, and for an intent that it
    cannot express.
    """
    if name not in RENDERERS:
        close = difflib.get_close_matches(name, RENDERERS, 1)
        hint = f": did you mean {close[0]!r}?" if close else ""
        raise UsageError(
            f"the engine {name!r} is not put in force by objects of a cluster alone{hint}"
        )
    objects: list[dict[str, Any]] = importlib.import_module(f"{__name__}.{name}").render(policies)
    return objects

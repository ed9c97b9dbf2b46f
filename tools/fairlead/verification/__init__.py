"""The engines that the cases run on, by name, and what `fairlead verify` makes of their answers. To
add one, write a class like fairlead.engines.base.Engine and a line in ENGINES."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable

from fairlead.clusters.registry import Target
from fairlead.common.errors import UsageError
from fairlead.engines.base import Engine
from fairlead.policy.policy_set import PolicySet

LABORATORY = ("webhook", "cel", "gatekeeper", "kyverno")
"""Engines that ask a real API server, which only the laboratory of a checkout starts."""
# Engine -> its class, as module:name. A module is imported when its engine is used.
ENGINES = {
    "opa": "fairlead.verification.opa:OpaEngine",
    "python": "fairlead.engines.python.engine:PythonEngine",
}


def load(
    names: Iterable[str], policies: PolicySet | None = None, target: Target | None = None
) -> list[Engine]:
    """Create the engines with these `names`, each once, in the order of ENGINES; all if `names` is
    empty. They decide by the policies, or the project's.

    An engine that needs a cluster starts its own, or uses that of `target` and changes its
    policies. Raises UsageError for an unknown name.
    """
    selection = set(names)
    engine_names = list(dict.fromkeys((*ENGINES, *LABORATORY)))
    for name in sorted(selection - set(ENGINES)):
        if name in engine_names:
            raise UsageError(f"{name}: only a checkout of Fairlead has what starts it")
        close = difflib.get_close_matches(name, engine_names, 1)
        hint = f": did you mean {close[0]!r}?" if close else "."
        raise UsageError(f"unknown engine {name!r}{hint} There are: {', '.join(engine_names)}")
    return [
        _load(path, policies, target)
        for name, path in ENGINES.items()
        if not selection or name in selection
    ]


def _load(path: str, policies: PolicySet | None, target: Target | None) -> Engine:
    module, _, name = path.partition(":")
    kind = getattr(importlib.import_module(module), name)
    engine: Engine = kind(policies, target) if kind.asks_cluster else kind(policies)
    return engine

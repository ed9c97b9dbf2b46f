"""The engines that the cases run on, by name. To add one, write a module here and a line in
ENGINES."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable

from fairlead.checks.conformance.engines.base import Engine
from fairlead.clusters.registry import Target
from fairlead.common.errors import UsageError

# Engine -> its class, as module:name. A module is imported when its engine is used.
ENGINES = {
    "opa": "fairlead.checks.conformance.engines.opa:OpaEngine",
    "webhook": "fairlead.checks.conformance.engines.webhook:WebhookEngine",
}


def load(names: Iterable[str], target: Target | None = None) -> list[Engine]:
    """Create the engines with these `names`, each once, in the order of ENGINES; all if `names` is
    empty.

    An engine that needs a cluster starts its own, or uses that of `target` and changes its
    policies. Raises UsageError for an unknown name.
    """
    chosen = set(names)
    for name in sorted(chosen - set(ENGINES)):
        close = difflib.get_close_matches(name, ENGINES, 1)
        hint = f": did you mean {close[0]!r}?" if close else "."
        raise UsageError(f"unknown engine {name!r}{hint} There are: {', '.join(ENGINES)}")
    return [_load(path, target) for name, path in ENGINES.items() if not chosen or name in chosen]


def _load(path: str, target: Target | None) -> Engine:
    module, _, name = path.partition(":")
    kind = getattr(importlib.import_module(module), name)
    engine: Engine = kind(target) if kind.asks_cluster else kind()
    return engine

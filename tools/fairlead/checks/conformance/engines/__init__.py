"""The engines that can enforce an intent, by name. To add one, write a module here and a line in
ENGINES."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable

from fairlead.checks.conformance.engines.base import Engine
from fairlead.clusters.registry import Target
from fairlead.common.errors import UsageError

# Engine -> the class, as module:name; a module is imported when its engine is used.
ENGINES = {
    "opa": "fairlead.checks.conformance.engines.opa:OpaEngine",
    "webhook": "fairlead.checks.conformance.engines.webhook:WebhookEngine",
}


def load(names: Iterable[str], target: Target | None = None) -> list[Engine]:
    """The engines called `names`, each once, in the order of ENGINES; all where `names` is empty.

    Those that take a cluster start one of their own, or ask that of `target`, whose policies they
    change. Raises UsageError.
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

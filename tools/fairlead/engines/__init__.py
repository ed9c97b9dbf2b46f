"""The engines that can enforce an intent, by name; a new one is a module here and a line in ENGINES."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable

from fairlead.engines.base import Engine
from fairlead.errors import UsageError

# Engine -> the class, as module:name; a module is imported when its engine is used.
ENGINES = {
    "opa": "fairlead.engines.opa:OpaEngine",
    "webhook": "fairlead.engines.webhook:WebhookEngine",
}


def load(names: Iterable[str]) -> list[Engine]:
    """The engines called `names`, each once, in the order of ENGINES; all where `names` is empty. Raises UsageError."""
    wanted = set(names)
    for name in sorted(wanted - set(ENGINES)):
        close = difflib.get_close_matches(name, ENGINES, 1)
        hint = f": did you mean {close[0]!r}?" if close else "."
        raise UsageError(f"unknown engine {name!r}{hint} There are: {', '.join(ENGINES)}")
    return [_load(target) for name, target in ENGINES.items() if not wanted or name in wanted]


def _load(target: str) -> Engine:
    module, _, name = target.partition(":")
    engine: Engine = getattr(importlib.import_module(module), name)()
    return engine

"""The engines, by name: those that decide on cases, and those that render objects. To add one,
write a folder here and a line in ENGINES or RENDERERS."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.common.errors import UsageError
from fairlead.engines.base import Engine, Renderer
from fairlead.policy import bundles
from fairlead.settings.models import Settings

if TYPE_CHECKING:  # as the image of Fairlead has no code that finds clusters
    from fairlead.clusters.registry import Target

# Engine -> its class, as module:name. A module is imported when its engine is used.
ENGINES = {
    "opa": "fairlead.engines.opa:OpaEngine",
    "python": "fairlead.engines.python.engine:PythonEngine",
    "webhook": "fairlead.engines.webhook:WebhookEngine",
    "cel": "fairlead.engines.cel:CelEngine",
}
RENDERERS = {
    "cel": ENGINES["cel"],
    "gatekeeper": "fairlead.engines.gatekeeper:GatekeeperRenderer",
    "kyverno": "fairlead.engines.kyverno:KyvernoRenderer",
}
"""Those that are put in force by objects of a cluster, without a program of Fairlead's."""

ENFORCING = ("opa", "cel", "python")
"""Those that `fairlead deploy` can put in force in a cluster."""


def load(
    names: Iterable[str], target: Target | None = None, folder: Path | None = None
) -> list[Engine]:
    """Create the engines with these `names`, each once, in the order of ENGINES; all if `names` is
    empty. They decide by the policies of `folder`, or the project's.

    An engine that needs a cluster starts its own, or uses that of `target` and changes its
    policies. Raises UsageError for an unknown name.
    """
    chosen = set(names)
    for name in sorted(chosen - set(ENGINES)):
        _refuse(name, ENGINES)
    return [
        _load(path, target, folder)
        for name, path in ENGINES.items()
        if not chosen or name in chosen
    ]


def renderer(name: str, folder: Path | None = None) -> Renderer:
    """The engine of this name, with the policies of `folder`, or the project's. Raises UsageError
    for an engine that renders no objects.
    """
    if name in ENGINES.keys() - RENDERERS.keys():
        raise UsageError(f"the engine {name!r} is not put in force by objects of a cluster alone")
    if name not in RENDERERS:
        _refuse(name, RENDERERS)
    engine: Renderer = _class(RENDERERS[name])(folder)
    return engine


def render(name: str, settings: Settings, folder: Path | None = None) -> list[dict[str, Any]]:
    """The objects by which a cluster enforces the intents with the engine of this name, in the
    order in which to apply them. The policies are those of `folder`, or the project's.

    Raises UsageError for an engine without such objects, and for an intent that it cannot express.
    """
    engine = renderer(name, folder)
    return engine.render(bundles.bundle(settings, folder).active(settings), settings)


def _refuse(name: str, names: Collection[str]) -> None:
    close = difflib.get_close_matches(name, names, 1)
    hint = f": did you mean {close[0]!r}?" if close else "."
    raise UsageError(f"unknown engine {name!r}{hint} There are: {', '.join(names)}")


def _load(path: str, target: Target | None, folder: Path | None) -> Engine:
    kind = _class(path)
    engine: Engine = kind(folder, target) if kind.asks_cluster else kind(folder)
    return engine


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)

"""The Rego of a ConstraintTemplate: the modules of the policies themselves, moved below `lib`, and
the few modules by which Gatekeeper asks them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from fairlead.common import yaml_files
from fairlead.common.errors import FairleadError
from fairlead.opa import cli
from fairlead.policy import carried
from fairlead.policy.bundles import Bundle
from fairlead.policy.intents import Intent
from fairlead.policy.revision import MAIN, PACKAGE

LIBRARY = "lib.fairlead"
"""The package below which Gatekeeper finds the policies. It allows `lib` alone."""
ENTRY = "entry.rego"
"""The module that Gatekeeper evaluates."""

_HERE = Path(__file__).parent / "modules"
# What Gatekeeper gives in another way than a deployment of OPA: modules here take the place of
# those of the same packages.
_ADAPTED = ("exceptions", "intents", "namespaces", "settings")
_SWITCHED_OFF = ("http.send",)
"""The built-in functions that Gatekeeper's Helm chart switches off. It would accept a template that
calls one, and never enforce it."""
_USED = re.compile(r"\bdata\.([a-z_][\w.]*)")


@dataclass(frozen=True)
class Code:
    """The Rego of a template: the module that Gatekeeper evaluates, and those that it uses, sorted
    by their packages.
    """

    entry: str
    libraries: tuple[str, ...]
    unavailable: tuple[str, ...]
    """What the policy uses and Gatekeeper does not have, such as `data.kubernetes.services`."""


def of(intent: Intent, bundle: Bundle) -> Code:
    """The Rego of the intent's template. Raises FairleadError with OPA's message."""
    modules = {
        key: carried.without_facts(text)
        for key, text in bundle.modules.items()
        if _package(text) not in _ADAPTED
    }
    return _of(intent.package, tuple(sorted(modules.items())))


@functools.lru_cache(maxsize=64)  # the same for all settings
def _of(intent: str, modules: tuple[tuple[str, str], ...]) -> Code:
    by_package: dict[str, dict[str, str]] = {}
    for key, text in modules:
        by_package.setdefault(_package(text), {})[key] = text
    for name in _ADAPTED:
        text = yaml_files.read_text(_HERE / f"{name}.rego").replace("PACKAGE", intent)
        by_package[name] = {f"{name}.rego": text}
    modules_: dict[str, str] = {}
    packages: set[str] = set()
    pending = {_package(dict(modules)[MAIN])}
    while pending:
        package = pending.pop()
        packages.add(package)
        modules_ |= by_package[package]
        texts = by_package[package].values()
        unused = by_package.keys() - packages
        pending |= {name for name in unused if any(_uses(text, name) for text in texts)}
    moved = cli.move(modules_, {path: f"{LIBRARY}.{path}" for path in packages})
    entry = yaml_files.read_text(_HERE / ENTRY)
    paths = cli.documents_used({**moved, ENTRY: entry}, ["data.fairlead.violation"])
    unavailable = {".".join(path) for path in paths if path[0] == "data"}
    unavailable |= {name for name in _SWITCHED_OFF if any(f"{name}(" in t for t in moved.values())}
    return Code(
        entry,
        tuple(sorted(moved.values(), key=lambda text: (_package(text), text))),
        tuple(sorted(unavailable)),
    )


def _uses(text: str, package: str) -> bool:
    return any(f"{path}.".startswith(f"{package}.") for path in _USED.findall(text))


def _package(text: str) -> str:
    match = PACKAGE.search(text)
    if not match:
        raise FairleadError("a module names no package: begin it with `package NAME`")
    return match[1]

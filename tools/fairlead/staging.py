"""Gives each revision's packages names of their own, so that a push is atomic for those who ask.

OPA loads one module at a time. So a new revision is loaded beside the old one, under the packages `r_<revision>.*`,
which nothing uses yet; then main.rego alone is replaced, whose imports name them. Whoever asks is answered by all of
the old revision or by all of the new one. The sidecar loads new modules first, then changed ones, and removes the old
ones last.
"""

from __future__ import annotations

import re

from fairlead import opa_cli
from fairlead.errors import FairleadError
from fairlead.policy import Bundle
from fairlead.progress import Progress

_PACKAGE = re.compile(r"^package\s+([\w.]+)", re.MULTILINE)
_ENTRY = "system"
"""The package that OPA itself asks (the decision, health): it keeps its name."""


def stage(bundle: Bundle, progress: Progress) -> Bundle:
    """The bundle as it is deployed. Raises FairleadError where a module has no package or cannot be parsed."""
    packages = {key: _package(key, text) for key, text in bundle.modules.items()}
    inner = {path for path in packages.values() if path.split(".")[0] != _ENTRY}
    name = bundle.revision
    moved = opa_cli.move(bundle.modules, {path: f"r_{name}.{path}" for path in inner}, progress)
    return Bundle({f"{name}.{key}" if packages[key] in inner else key: text for key, text in moved.items()})


def _package(key: str, text: str) -> str:
    found = _PACKAGE.search(text)
    if not found:
        raise FairleadError(f"{key}: names no package: begin it with `package NAME`")
    return found[1]

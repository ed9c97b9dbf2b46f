"""Which libraries modules use: those that none uses, a deployment leaves out."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LIBRARY = re.compile(r"\bdata\.(lib\.\w+)")


def unused(modules: Mapping[str, str]) -> set[str]:
    """The keys of the modules below `lib` that no others use, directly or through one another."""
    texts = [text for key, text in modules.items() if not _is_library(key)]
    used: set[str] = set()
    while new := {name for text in texts for name in _LIBRARY.findall(text)} - used:
        used |= new
        texts = [text for key, text in modules.items() if _library_of(key) in new]
    return {key for key in modules if _is_library(key) and _library_of(key) not in used}


def _is_library(key: str) -> bool:
    return key.startswith("lib.")


def _library_of(key: str) -> str:
    """`lib.<name>` for a module of that package."""
    return ".".join(key.split(".")[:2])

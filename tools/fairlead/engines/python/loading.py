"""Finds and imports the intents that are written in Python."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from fairlead.common.errors import InputError
from fairlead.engines.python.api import Decision, Request
from fairlead.settings.intents import Intent
from fairlead.settings.models import Settings

Decide = Callable[[Request, Mapping[str, Any], Settings], Decision]

_FILE = Path("engines", "python.py")


def path_of(intent: Intent) -> Path:
    """Where the intent is, or would be, written in Python."""
    return Path(intent.source).parent / _FILE


def load(intent: Intent) -> Decide | None:
    """The function `decide` of the intent; None if it is not written in Python. Raises
    InputError.
    """
    path = path_of(intent).resolve()
    if not path.is_file():
        return None
    decide = getattr(_module(intent.package, path), "decide", None)
    if not callable(decide):
        raise InputError(path, "has no function decide(request, parameters, settings): define it")
    function: Decide = decide
    return function


@functools.cache
def _module(package: str, path: Path) -> ModuleType:
    """The module in the file, under a name that no other file has. Raises InputError."""
    name = f"fairlead_intent_{package}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 - a file that ends in .py has a loader
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)
        ]
        line = error.lineno if isinstance(error, SyntaxError) else (lines or [None])[-1]
        raise InputError(path, f"{type(error).__name__}: {error}", line=line) from error
    return module

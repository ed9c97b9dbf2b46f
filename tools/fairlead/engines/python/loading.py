"""Loads intents that are written in Python: from their files, or from the policies' ConfigMap."""

from __future__ import annotations

import functools
import hashlib
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.engines.python.api import Decision, Request
from fairlead.policy import python_code
from fairlead.policy.instances import Instance
from fairlead.policy.intents import Intent
from fairlead.settings.models import Settings

Decide = Callable[[Request, Mapping[str, Any], Settings], Decision]


def load(instance: Instance) -> Decide:
    """The function `decide` of the instance's intent. Raises InputError, and MissingError if it is
    not written in Python.
    """
    path = python_code.path_of(instance.intent).resolve()
    if not path.is_file():
        raise python_code.missing(instance)
    return _decide(instance.intent, yaml_files.read_text(path), path)


def load_from(code: Mapping[str, str]) -> Callable[[Instance], Decide]:
    """Such a function for intents whose code the data of a ConfigMap have."""

    def load(instance: Instance) -> Decide:
        key = python_code.key_of(instance.intent)
        if key not in code:
            raise python_code.missing(instance)
        return _decide(instance.intent, code[key], Path(key))

    return load


def _decide(intent: Intent, text: str, source: Path) -> Decide:
    decide = getattr(_module(intent.package, text, source), "decide", None)
    if not callable(decide):
        raise InputError(source, "has no function decide(request, parameters, settings): define it")
    function: Decide = decide
    return function


@functools.lru_cache(maxsize=256)
def _module(package: str, text: str, source: Path) -> ModuleType:
    """The module of this text, under a name that no other text has. Raises InputError."""
    digest = hashlib.sha256(f"{source}\n{text}".encode()).hexdigest()
    module = ModuleType(f"fairlead_intent_{package}_{digest[:12]}")
    module.__file__ = str(source)
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    try:
        # Only administrators of Fairlead can change the ConfigMap: a guard sees to that.
        exec(compile(text, source, "exec", dont_inherit=True), vars(module))  # noqa: S102
    except Exception as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(source)
        ]
        line = error.lineno if isinstance(error, SyntaxError) else (lines or [None])[-1]
        raise InputError(source, f"{type(error).__name__}: {error}", line=line) from error
    finally:
        del sys.modules[module.__name__]  # a process that runs for months reads many revisions
    return module

"""Finds and reads fairlead.yaml, suggests the spelling of a mistyped key, and applies the variables
that name images."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from pydantic.alias_generators import to_camel

from fairlead.common import files, paths
from fairlead.common.errors import InputError
from fairlead.settings.images import overridden
from fairlead.settings.models import Settings

FILE = "fairlead.yaml"


def find(path: Path | None) -> Path | None:
    """The file in force: `path`, FAIRLEAD_SETTINGS, or fairlead.yaml in the checkout, or None."""
    if path is None and (variable := os.environ.get("FAIRLEAD_SETTINGS")):
        path = Path(variable)
    if path is None:
        path = paths.root() / FILE
        return path if path.exists() else None
    return path


def load(path: Path | None = None) -> Settings:
    """The settings of the file in force, or the defaults; environment variables override images.

    Raises InputError with file and line, UsageError with the variable.
    """
    settings = _read(path)
    return settings.model_copy(update={"images": overridden(settings.images, os.environ)})


def _read(path: Path | None) -> Settings:
    file = find(path)
    if file is None:
        return Settings()
    documents = files.read_yaml(file)
    if len(documents) > 1:
        raise InputError(file, "holds more than one document", line=documents[1].line(()))
    return parse(documents[0])


def parse(document: files.Document) -> Settings:
    """Settings from one document. Raises InputError with file and line."""
    keys = [to_camel(name) for name in Settings.model_fields]
    for key in document.value if isinstance(document.value, dict) else ():
        if key not in keys and (close := difflib.get_close_matches(str(key), keys, 1)):
            line = document.line([key])
            raise InputError(
                document.path, f"unknown key {key!r}: did you mean {close[0]!r}?", line=line
            )
    return document.parse(Settings)

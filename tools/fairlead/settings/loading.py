"""Finds and reads fairlead.yaml, and applies the variables that name images."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.common import files, paths
from fairlead.common.errors import InputError
from fairlead.settings.images import overridden
from fairlead.settings.models import Settings

FILE = "fairlead.yaml"


def find(path: Path | None) -> Path | None:
    """The file in force: `path`, that of FAIRLEAD_SETTINGS, fairlead.yaml of the working directory
    or that of the checkout; None if there is none.
    """
    if path is None and (variable := os.environ.get("FAIRLEAD_SETTINGS")):
        path = Path(variable)
    if path is not None:
        return path
    places = (Path.cwd() / FILE, paths.root() / FILE)
    return next((place for place in places if place.exists()), None)


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
    """Settings from one document. Raises InputError with every mistake and its line."""
    return document.parse(Settings)

"""Finds and reads fairlead.yaml, suggests the spelling of a mistyped key, and applies the variables
that name images."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic.alias_generators import to_camel

from fairlead.common import files, paths
from fairlead.common.errors import InputError
from fairlead.settings import intents
from fairlead.settings.images import overridden
from fairlead.settings.intents import Intent
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


def parse(document: files.Document, policies: Sequence[str] = ()) -> Settings:
    """Settings from one document, which may name the intents of the project's policies, of its own
    `policies` and of further folders. Raises InputError with file and line.
    """
    keys = [to_camel(name) for name in Settings.model_fields]
    for key in document.value if isinstance(document.value, dict) else ():
        if key not in keys and (close := difflib.get_close_matches(str(key), keys, 1)):
            line = document.line([key])
            raise InputError(
                document.path, f"unknown key {key!r}: did you mean {close[0]!r}?", line=line
            )
    settings = document.parse(Settings)
    own = [
        str((document.path.absolute().parent / folder).resolve()) for folder in settings.policies
    ]
    settings = settings.model_copy(update={"policies": own})
    known = _known_intents(document, [*own, *policies])
    for key in ("intents", "enforcement"):
        names = document.value.get(key)
        for name in names if isinstance(names, dict) else ():
            if name not in known:
                raise InputError(
                    document.path,
                    f"{key}: there is no intent {name!r}: use one of {', '.join(sorted(known))}",
                    line=document.line([key, name]),
                )
    for name, chosen in settings.intents.items():
        try:
            known[name].parameters(chosen.parameters)
        except ValueError as error:
            line = document.line(["intents", name, "parameters"])
            raise InputError(document.path, f"intents.{name}.{error}", line=line) from error
    return settings


def _known_intents(document: files.Document, folders: Sequence[str]) -> dict[str, Intent]:
    """The intents of the project's policies and of these folders, by name. Raises InputError."""
    known = {intent.name: intent for intent in intents.in_folder(intents.builtin_folder())}
    for number, folder in enumerate(folders):
        if not Path(folder).is_dir():
            line = document.line(["policies", number])
            raise InputError(document.path, f"policies: there is no folder {folder}", line=line)
        known |= {intent.name: intent for intent in intents.in_folder(Path(folder))}
    return known

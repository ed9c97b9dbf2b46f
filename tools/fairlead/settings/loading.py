"""Finds and reads fairlead.yaml, and applies the variables that name images."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairlead.common import files, paths
from fairlead.common.errors import InputError
from fairlead.settings import intents
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


def parse(document: files.Document, policies: Sequence[str] = ()) -> Settings:
    """Settings from one document, which may name the intents of the project's policies, of its own
    `policies` and of further folders. Raises InputError with every mistake and its line.
    """
    settings = document.parse(Settings)
    place = document.path.absolute().parent
    own = [str((place / folder).resolve()) for folder in settings.policies]
    for number, folder in enumerate(own):
        if not Path(folder).is_dir():
            problem = f"policies: there is no folder {folder}: create it, or remove it"
            raise InputError(document.path, problem, line=document.line(["policies", number]))
    settings = settings.model_copy(update={"policies": own})
    if problems := sorted(_problems(document, settings, [*own, *policies])):
        (line, problem), *further = problems
        raise InputError(document.path, problem, line=line, further=further)
    return settings


def _problems(
    document: files.Document, settings: Settings, folders: Sequence[str]
) -> Iterator[tuple[int, str]]:
    """What is wrong with the intents that the settings name, and with their parameters. Raises
    InputError if the METADATA of a policy cannot be read.
    """
    places = [intents.builtin_folder(), *map(Path, folders)]
    known = {intent.name: intent for place in places for intent in intents.in_folder(place)}
    for key in ("intents", "enforcement"):
        names = document.value.get(key)
        for name in names if isinstance(names, dict) else ():
            if name not in known:
                yield (
                    document.line([key, name]) or 0,
                    f"{key}: there is no intent {name!r}: use one of {', '.join(sorted(known))}",
                )
    for name, chosen in settings.intents.items():
        try:
            if name in known:
                known[name].parameters(chosen.parameters)
        except ValueError as error:
            line = document.line(["intents", name, "parameters"])
            yield line or 0, f"intents.{name}.{error}"

"""Finds and reads fairlead.yaml, checks what it says of intents, and applies the variables that
name images."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.common import mistakes, paths, yaml_files
from fairlead.common.errors import InputError, UsageError
from fairlead.common.mistakes import Mistake
from fairlead.policy import intents, policy_files
from fairlead.policy.intents import Intent
from fairlead.policy.policy_files import PolicyFiles
from fairlead.settings.images import overridden
from fairlead.settings.models import EVERY, IntentSettings, Settings

FILE = "fairlead.yaml"
_VARIABLE = "FAIRLEAD_SETTINGS"
_LIKE = 0.8
"""How much a key resembles the intent that it means, at least."""


@dataclass(frozen=True)
class Given:
    """The parameters that the settings give an instance of an intent, with the defaults of the
    others.
    """

    name: str
    intent: Intent
    parameters: Mapping[str, Any]


Rules = Callable[[Sequence[Given]], Iterable[tuple[Given, Mistake]]]
"""What checks parameters that satisfy their schema. The location of a mistake begins with
`parameters`."""


def _none(_: Sequence[Given]) -> Iterable[tuple[Given, Mistake]]:
    return ()


def find(path: Path | None) -> Path | None:
    """The file in force: `path`, that of FAIRLEAD_SETTINGS, fairlead.yaml of the working directory
    or that of the checkout; None if there is none.
    """
    if path is None and (variable := os.environ.get(_VARIABLE)):
        path = Path(variable)
    if path is not None:
        return path
    places = (Path.cwd() / FILE, paths.root() / FILE)
    return next((candidate for candidate in places if candidate.exists()), None)


def require_own(manifests: Iterable[Path], path: Path | None) -> None:
    """Raises UsageError if nobody named the file in force, and the folder of manifests, or one
    above it in the same Git repository, has another fairlead.yaml.
    """
    if path is not None or os.environ.get(_VARIABLE):
        return
    in_force = find(None)
    for path in manifests:
        own = next((file for folder in _within(path) if (file := folder / FILE).is_file()), None)
        if own is not None and (in_force is None or not own.samefile(in_force)):
            own_name = paths.shown(own)
            raise UsageError(
                f"{own_name} is the settings file beside these manifests, but "
                f"{paths.shown(in_force) if in_force else 'no settings file'} is in force: add "
                f"--settings {own_name}"
            )


def _within(path: Path) -> Iterator[Path]:
    """The folder of a path, and those above it up to the one of its Git repository."""
    folder = path.absolute() if path.is_dir() else path.absolute().parent
    above = [folder, *folder.parents]
    root = next((each for each in above if (each / ".git").exists()), folder)
    yield from above[: above.index(root) + 1]


def load(path: Path | None = None, rules: Rules = _none) -> Settings:
    """The settings of the file in force, or the defaults; environment variables override images.

    Raises InputError with file and line, UsageError with the variable.
    """
    document = _document(path)
    return _with_images(parse(document, rules=rules) if document else Settings())


def read(path: Path | None = None, rules: Rules = _none) -> tuple[Settings, PolicyFiles]:
    """The same settings with all policies, which the settings name parts of. Raises as `load`, and
    InputError for what is wrong with the policies.
    """
    document = _document(path)
    settings, faults = _parsed(document) if document else (Settings(), [])
    with _also(document, faults):
        policies = policy_files.NONE.of(None, settings.policies)
    if document:
        _check(document, settings, faults, policies.intents, rules)
    return _with_images(settings), policies


def _with_images(settings: Settings) -> Settings:
    return settings.model_copy(update={"images": overridden(settings.images, os.environ)})


def located(path: Path | None, faults: Sequence[Mistake]) -> UsageError:
    """What says where in the file in force these mistakes stand; their locations are keys from the
    top.
    """
    file = find(path)
    documents = yaml_files.read_yaml(file) if file else []
    if file is None or not documents:
        return UsageError("\n".join(mistake.text for mistake in faults))
    return documents[0].mistaken(faults)


def _document(path: Path | None) -> yaml_files.Document | None:
    """The file in force, if there is one."""
    file = find(path)
    if file is None:
        return None
    document, *others = yaml_files.read_yaml(file)
    if others:
        raise InputError(file, "holds more than one document", line=others[0].line(()))
    return document


def parse(
    document: yaml_files.Document,
    known_intents: Iterable[Intent] | None = None,
    rules: Rules = _none,
) -> Settings:
    """Settings from one document, which may name the intents of its own `policies` and of
    `known_intents`, by default those of the project. Raises InputError with every mistake and its
    line, and if an intent.yaml cannot be read.
    """
    settings, faults = _parsed(document)
    if known_intents is None:
        known_intents = intents.in_folder(intents.builtin_folder())
    with _also(document, faults):
        own = [
            intent
            for folder in map(Path, settings.policies)
            for intent in intents.in_folder(folder)
        ]
    _check(document, settings, faults, [*known_intents, *own], rules)
    return settings


def _parsed(document: yaml_files.Document) -> tuple[Settings, list[Mistake]]:
    """The settings of a document, with the places of its folders, and every mistake in it; then
    the settings are those of the other parts. Raises InputError if there are none.
    """
    document.require_mapping()
    settings, faults = mistakes.repaired(Settings, document.value)
    if settings is None:
        raise document.mistaken(faults)
    parent = document.path.absolute().parent
    folders = []
    for number, name in enumerate(settings.policies):
        folder = (parent / name).resolve()
        if folder.is_dir():
            folders.append(str(folder))
        else:
            text = f"policies: there is no folder {folder}: create it, or remove it"
            faults.append(Mistake(("policies", number), text))
    return settings.model_copy(update={"policies": folders}), faults


@contextmanager
def _also(document: yaml_files.Document | None, faults: Sequence[Mistake]) -> Iterator[None]:
    """Adds the mistakes in the settings to an error about what they name."""
    try:
        yield
    except InputError as error:
        if document and faults:
            raise UsageError(f"{document.mistaken(faults)}\n{error}") from error
        raise


def _check(
    document: yaml_files.Document,
    settings: Settings,
    faults: Sequence[Mistake],
    known_intents: Iterable[Intent],
    rules: Rules,
) -> None:
    """Raises InputError with all mistakes `faults`, and with everything that is wrong about intents
    and parameters.
    """
    by_name = {intent.name: intent for intent in known_intents}
    faults = [_as_intent(fault, by_name) for fault in faults]
    problems = [
        mistake
        for mistake in _problems(document, settings, by_name)
        if not any(_follows(mistake, earlier) for earlier in faults)
    ]
    wrong = {mistake.location[1] for mistake in (*faults, *problems) if mistake.location[1:]}
    problems += _against(rules, settings, by_name, wrong)
    if faults or problems:
        raise document.mistaken([*faults, *problems])


def _as_intent(mistake: Mistake, names: Iterable[str]) -> Mistake:
    """The mistake; where an intent stands at the top, it says where that belongs."""
    key, *further = mistake.location or (None,)
    intent = difflib.get_close_matches(str(key), names, 1, _LIKE)
    if further or not intent or not mistake.text.startswith("unknown key"):
        return mistake
    text = f"unknown key {key!r}: the intent {intent[0]} stands below `intents:`"
    return replace(mistake, text=text)


def _follows(mistake: Mistake, earlier: Mistake) -> bool:
    """Whether a mistake about intents may be there only because a part with an earlier one was left
    out: a folder of policies, an instance, its intent or its parameters.
    """
    if earlier.location[:1] == ("policies",):
        return mistake.is_unknown
    same_instance = mistake.location[:2] == earlier.location[:2]
    return same_instance and earlier.location[2:3] in ((), ("intent",), mistake.location[2:3])


def _against(
    rules: Rules, settings: Settings, by_name: Mapping[str, Intent], wrong: Container[object]
) -> Iterator[Mistake]:
    """The parameters that the settings give against the rules, but for instances with mistakes."""
    instances = []
    for name, instance in settings.intents.items():
        if instance.enabled and instance.parameters and name not in wrong:
            intent = by_name[instance.intent or name]
            instances.append(Given(name, intent, intent.parameters(instance.parameters)))
    for broken, mistake in rules(instances):
        yield Mistake(
            ("intents", broken.name, *mistake.location), f"intents.{broken.name}.{mistake.text}"
        )


def _problems(
    document: yaml_files.Document, settings: Settings, by_name: Mapping[str, Intent]
) -> Iterator[Mistake]:
    """What is wrong with the intents that the settings name, and with their parameters."""
    for name, instance in settings.intents.items():
        for mistake in _of_instance(name, instance, by_name):
            yield replace(mistake, location=("intents", name, *mistake.location))
    modes, instances = (document.value.get(key) for key in ("enforcement", "intents"))
    for name in modes if isinstance(modes, dict) else ():
        if name not in {EVERY, *by_name, *(instances if isinstance(instances, dict) else ())}:
            text = f"enforcement: there is no intent {name!r}: use one of {_listed(by_name)}"
            yield Mistake(("enforcement", name), text, is_unknown=True)


def _of_instance(
    name: str, instance: IntentSettings, by_name: Mapping[str, Intent]
) -> Iterator[Mistake]:
    """What is wrong with one instance of an intent; locations begin at the instance."""
    if instance.intent is None and name not in by_name:
        yield Mistake(
            (),
            f"intents: there is no intent {name!r}: use one of {_listed(by_name)}, or say with "
            "`intent:` which of them it is an instance of",
            is_unknown=True,
        )
        return
    if name not in by_name and (illegal := intents.name_problem(name.replace("-", "_"))):
        yield Mistake((), f"intents.{name}: {illegal}")
    intent = by_name.get(instance.intent or name)
    if intent is None:
        text = f"there is no intent {instance.intent!r}: use one of {_listed(by_name)}"
        yield Mistake(("intent",), f"intents.{name}.intent: {text}", is_unknown=True)
        return
    if name in by_name and intent.name != name:
        text = f"{name!r} is an intent of its own: choose another name for this instance"
        yield Mistake(("intent",), f"intents.{name}.intent: {text}")
    if intent.facts.decides_on_namespaces and name != intent.name:
        text = f"{intent.name} itself decides on namespaces, so there is only one instance of it"
        yield Mistake(("intent",), f"intents.{name}.intent: {text}: change intents.{intent.name}")
    if intent.facts.decides_on_namespaces and instance.namespaces.expressions:
        text = "itself decides on namespaces: use exempt.namespaces, or change their labels"
        yield Mistake(("namespaces",), f"intents.{name}.namespaces: {intent.name} {text}")
    if instance.enabled:
        for problem in intent.problems(instance.parameters):
            yield Mistake(problem.location, f"intents.{name}.{problem.text}")


def _listed(names: Mapping[str, Intent]) -> str:
    return ", ".join(sorted(names))

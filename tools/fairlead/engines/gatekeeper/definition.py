"""Reads which mutators an intent needs: `engines/gatekeeper.yaml` in its folder. docs/engines.md
describes the file."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from jinja2 import TemplateError
from pydantic import Field

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.policy.expressions import rendered
from fairlead.policy.intents import Intent
from fairlead.settings.strict import Strict

FILE = Path("engines") / "gatekeeper.yaml"


class Refusal(Strict):
    """Settings that no mutator can express: where they stand, as keys in fairlead.yaml, and why."""

    when: str = Field(pattern=r"^\{\{.*\}\}$")
    at: list[str] = Field(min_length=1)
    reason: str = Field(min_length=1)


class Inexpressible(Strict):
    """Requests about which the mutators do something else than the intent, and why. `when` also
    sees `request` and `namespace`, as in engines/cel.yaml, and the `expected` object of a case.
    """

    when: str = Field(pattern=r"^\{\{.*\}\}$")
    reason: str = Field(min_length=1)


class Mutator(Strict):
    """Mutators of one kind. `each` names lists, and there is a mutator for each combination of
    their items, which later texts see by the names.

    `request` is the name of a request in intent.yaml, None for the one without a name:
    its kind and its namespaces are those of the mutator, which `namespaces` narrow further.
    """

    kind: Literal["Assign", "ModifySet"]
    name: str = Field(min_length=1)
    when: str | bool = True
    each: dict[str, Any] = {}
    request: str | None = None
    namespaces: list[Any] = []
    location: str = Field(min_length=1)
    parameters: dict[str, Any]


class Definition(Strict):
    """What an intent does by mutators. Texts are Jinja2 expressions of `settings` (as in
    fairlead.yaml), `parameters`, `instance` (its name) and `pools` (name -> what it gives).
    """

    refused: list[Refusal] = []
    mutators: list[Mutator] = []
    inexpressible: list[Inexpressible] = []


def of(intent: Intent) -> Definition | None:
    """What the intent does by mutators; None if it has no such file. Raises InputError."""
    path = Path(intent.source).parent / FILE
    return _read(path, path.stat().st_mtime_ns) if path.is_file() else None


@functools.lru_cache(maxsize=64)
def _read(path: Path, _changed: int) -> Definition:
    documents = yaml_files.read_yaml(path)
    if len(documents) != 1:
        raise InputError(path, "holds more than one document" if documents else "is empty")
    return documents[0].parse(Definition)


def evaluated(intent: Intent, value: Any, names: Mapping[str, Any]) -> Any:
    """A value of the intent's file with its expressions evaluated. Raises InputError."""
    try:
        return rendered(value, names)
    except TemplateError as error:
        raise InputError(Path(intent.source).parent / FILE, f"{value}: {error}") from error


def combinations(
    intent: Intent, lists: Mapping[str, Any], names: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The names with every combination of the items of the lists. Raises InputError."""
    if not lists:
        yield dict(names)
        return
    (name, items), *further = lists.items()
    for item in evaluated(intent, items, names):
        yield from combinations(intent, dict(further), {**names, name: item})

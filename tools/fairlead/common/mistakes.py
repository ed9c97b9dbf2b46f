"""Words the mistakes that pydantic finds in what people wrote: what is there, and what to write
instead."""

from __future__ import annotations

import copy
import difflib
import functools
import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fairlead.common import texts

Location = tuple[str | int, ...]

Model = TypeVar("Model", bound=BaseModel)

_REPAIRS = 5
"""How often parts with mistakes are removed: a mapping without one of its keys may be one more."""
_MANY = 8
"""The number of valid keys up to which a message lists them."""

# The end of a message, by pydantic's type of error; {} are the fields of its context.
_WRITE = {
    "bool_type": "write true or false",
    "dict_type": "write a mapping (`key: value`)",
    "greater_than_equal": "write {ge} or more",
    "int_from_float": "write a whole number",
    "int_type": "write a whole number",
    "less_than_equal": "write {le} or less",
    "list_type": "write a list",
    "literal_error": "write {expected}",
    "model_type": "write a mapping (`key: value`)",
    "string_pattern_mismatch": "write text that matches {pattern}",
    "string_too_long": "write at most {max_length} characters",
    "string_type": "write text",
    "too_long": "write at most {max_length} items",
}
_EMPTY = {"dict_type": "{}", "list_type": "[]", "model_type": "{}"}


@dataclass(frozen=True)
class Mistake:
    """A mistake at a location (keys and indexes, from the top), and the top-level `keys` whose
    values contradict each other. `is_unknown` says that it names what does not exist.
    """

    location: Location
    text: str
    keys: tuple[str, ...] = ()
    is_unknown: bool = False


class Mistakes(ValueError):
    """Raised by a model's validator that compares several keys: each has its own location."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("; ".join(mistake.text for mistake in mistakes))
        self.mistakes = tuple(mistakes)


def of(error: ValidationError, model: type[BaseModel], value: Mapping[str, Any]) -> list[Mistake]:
    """Every mistake in `value`, each once. Keys that contradict each other are told even if others
    have mistakes of their own, for which pydantic does not compare them.
    """
    mistakes = list(dict.fromkeys(_of(error, model, value)))
    mistaken = {str(mistake.location[0]) for mistake in mistakes if mistake.location}
    try:
        model.model_validate({key: part for key, part in value.items() if key not in mistaken})
    except ValidationError as second:
        mistakes += [
            contradiction
            for contradiction in _contradictions(second)
            if contradiction not in mistakes and not mistaken & set(contradiction.keys)
        ]
    return mistakes


def repaired(model: type[Model], value: Mapping[str, Any]) -> tuple[Model | None, list[Mistake]]:
    """Every mistake in `value`, and the model without the parts that have one, so that what depends
    on the other parts can be checked, too; None if no model can be made of the rest.
    """
    mistakes: list[Mistake] = []
    rest = copy.deepcopy(dict(value))
    for _ in range(_REPAIRS):
        try:
            return model.model_validate(rest), mistakes
        except ValidationError as error:
            present = of(error, model, rest)
        mistakes = mistakes or present
        # From the end, so that the indexes of the others stay.
        for mistake in sorted(present, key=lambda each: str(each.location), reverse=True):
            _remove(rest, mistake)
    return None, mistakes


def _remove(value: dict[str, Any], mistake: Mistake) -> None:
    """Remove the part with a mistake: the whole mapping, where one of its keys is missing."""
    *above, last = _existing(mistake.location, value) or (None,)
    parent: Any = value
    for step in above:
        parent = parent[step]
    if last is not None:
        del parent[last]


def _of(
    error: ValidationError, model: type[BaseModel], value: Mapping[str, Any]
) -> Iterator[Mistake]:
    yield from _contradictions(error)
    for details in error.errors():
        if isinstance((details.get("ctx") or {}).get("error"), Mistakes):
            continue
        location = tuple(part for part in details["loc"] if part != "[key]")
        if details["type"] not in ("missing", "extra_forbidden"):
            location = _existing(location, value)
        text = _text(details, location, "[key]" in details["loc"], model)
        yield Mistake(location, text)


def _contradictions(error: ValidationError) -> Iterator[Mistake]:
    for details in error.errors():
        cause = (details.get("ctx") or {}).get("error")
        if isinstance(cause, Mistakes):
            yield from cause.mistakes


def _existing(location: Location, value: Any) -> Location:
    """The beginning of `location` that is in `value`: a model may read one word as a mapping."""
    for depth, step in enumerate(location):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return location[:depth]
    return location


def _text(details: Any, location: Location, key: bool, model: type[BaseModel]) -> str:
    kind, value, context = details["type"], details["input"], details.get("ctx") or {}
    field = path(location)
    if kind == "missing":
        return f"{field} is missing: add it"
    if kind == "extra_forbidden":
        return f"unknown key {field!r}: {instead_of(location[-1], _keys(model, location[:-1]))}"
    if key and kind == "literal_error":
        return f"unknown key {field!r}: take one of {context['expected'].replace(' or ', ', ')}"
    if kind == "value_error":
        message = str(context["error"])
        return message if message.startswith(field) else f"{field}: {message}"
    if value is None:
        if kind in _EMPTY and isinstance(location[-1], str):
            return f"{field} is empty: write `{location[-1]}: {_EMPTY[kind]}`"
        return f"{field} is empty: write a value, or remove it"
    if kind == "string_too_short":
        minimum = texts.counted(context["min_length"], "character")
        return f"{field} is empty: write at least {minimum}"
    if kind == "too_short":
        minimum = texts.counted(context["min_length"], "item")
        return f"{field} is too short: write at least {minimum}"
    write = _WRITE.get(kind)
    if write is None:
        return f"{field}: {details['msg']} (got {_shown(value)})"
    return f"{field} is {_shown(value)}: {write.format(**context)}{_quotes(kind, value)}"


def _quotes(kind: str, value: object) -> str:
    """Whether quotes alone make the difference: YAML reads `3` as a number and `"3"` as text."""
    if kind == "string_type" and isinstance(value, int | float):
        return ", in quotes"
    if kind == "int_type" and isinstance(value, str) and value.isdecimal():
        return ", without quotes"
    if kind == "bool_type" and value in ("true", "false"):
        return ", without quotes"
    return ""


def path(location: Location) -> str:
    """A location as people write it: `pools.gpu.tolerations[0].key`."""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.lstrip(".")


def _shown(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping" if value else "an empty mapping"
        case list():
            return f"the list {reprlib.repr(value)}"
    return reprlib.repr(value)


def instead_of(key: object, keys: Collection[str]) -> str:
    """What to write instead of an unknown key, where `keys` are allowed."""
    if close := difflib.get_close_matches(str(key), keys, 1):
        return f"did you mean {close[0]!r}?"
    if 0 < len(keys) <= _MANY:
        return f"remove it, or take one of {', '.join(sorted(keys))}"
    return "remove it, or see the documentation for the valid keys"


@functools.cache
def _schema(model: type[BaseModel]) -> Mapping[str, Any]:
    """Its JSON Schema, which takes some milliseconds to make."""
    return model.model_json_schema()


def _keys(model: type[BaseModel], location: Location) -> Collection[str]:
    """The keys that the model allows at `location`; empty if it does not say."""
    schema = _schema(model)
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    node: Mapping[str, Any] = schema
    for step in location:
        node = _resolved(node, definitions)
        if isinstance(step, int):
            node = node.get("items") or {}
        else:
            further = node.get("additionalProperties")
            further = further if isinstance(further, dict) else {}
            node = (node.get("properties") or {}).get(step) or further
    return list(_resolved(node, definitions).get("properties") or {})


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a reference means; of alternatives, the one that is not null."""
    for alternative in node.get("anyOf") or ():
        if alternative.get("type") != "null":
            node = alternative
            break
    referenced = definitions.get(str(node.get("$ref", "")).rpartition("/")[2])
    return node if referenced is None else dict(referenced)

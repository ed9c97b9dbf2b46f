"""What intent.yaml says by the settings and the parameters of an intent: references, such as
`$(settings.namespaceLabel)`, and the tests of `when` and `unless`.

Both name a value by its path. A `*` in a path stands for every value of a mapping or list.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

PATH = r"(settings|parameters)(\.(\*|[A-Za-z_]\w*))+"
"""The pattern of a path."""
_REFERENCE = re.compile(rf"\$\((?P<path>{PATH})\)")
TESTS = ("when", "unless")
"""The keys whose values are Tests."""
_OPENED = re.compile(r"\$\((?=settings|parameters)")

Names = Mapping[str, Any]
"""The `settings`, as in fairlead.yaml, and the `parameters`."""
Tests = Mapping[str, Any]
"""The values that paths must have: one, or one of a list; None if any will do that is neither
missing, false, 0 nor empty. If a path names several, one of them has to have the value."""


def is_reference(text: object) -> bool:
    """Whether a text is one reference and nothing else."""
    return isinstance(text, str) and _REFERENCE.fullmatch(text.strip()) is not None


def value(path: str, names: Names) -> Any:
    """What a path names; None if it is not there. With `*`, a list of what is there."""
    values: list[Any] = [names]
    for step in path.split("."):
        if step == "*":
            values = [part for item in values for part in _parts(item)]
        else:
            present = (item.get(step) for item in values if isinstance(item, Mapping))
            values = [part for part in present if part is not None]
    if "*" in path:
        return values
    return values[0] if values else None


def applies(part: Any, names: Names) -> bool:
    """Whether a part of intent.yaml is there: its `when` holds, and its `unless` does not."""
    if not isinstance(part, Mapping):
        return True
    unless = part.get("unless")
    return _all_hold(part.get("when") or {}, names) and not (unless and _all_hold(unless, names))


def in_force(part: Any, names: Names) -> Any:
    """A part of intent.yaml without what does not apply, and with its references replaced: by the
    value itself where a text is one reference, and by literals in `expression`, which is CEL. In a
    list, a reference stands for the items of a list, or the keys of a mapping.
    """
    if isinstance(part, Mapping):
        return {
            _resolved(key, names): _in_cel(value, names)
            if key == "expression"
            else in_force(value, names)
            for key, value in part.items()
            if key not in TESTS
        }
    if not isinstance(part, list):
        return _resolved(part, names) if isinstance(part, str) else part
    items: list[Any] = []
    for item in part:
        if applies(item, names):
            value = in_force(item, names)
            spliced = is_reference(item) and isinstance(value, list | dict)
            items += value if spliced else [value]
    return items


def paths(text: str) -> Iterator[str]:
    """The paths of the references in a text. Raises ValueError for one that is not well formed."""
    remaining = _REFERENCE.sub("", text)
    if _OPENED.search(remaining):
        raise ValueError("a reference is written like $(settings.contact) or $(parameters.name)")
    yield from (match["path"] for match in _REFERENCE.finditer(text))


def undeclared(path: str, schemas: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Why a path can name nothing: the schemas of `settings` and `parameters` have no such key.
    None if they have, or do not say.
    """
    first, *steps = path.split(".")
    schema = schemas[first]
    definitions = schema.get("$defs", {})
    for depth, step in enumerate(steps):
        alternatives = list(_alternatives(schema, definitions))
        below = [part for alternative in alternatives for part in _below(alternative, step)]
        if not below and not any(map(_is_open, alternatives)):
            keys = sorted(
                {key for alternative in alternatives for key in alternative.get("properties", {})}
            )
            place = ".".join([first, *steps[:depth]])
            close = difflib.get_close_matches(step, keys, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(keys)}"
            return f"{place} has no {step!r}: {hint if keys else 'remove it'}"
        if not below:
            return None
        schema = below[0]
    return None


def _resolved(text: str, names: Names) -> Any:
    """A text with its references replaced; the value itself if the text is one reference."""
    if is_reference(text):
        return value(text.strip()[2:-1], names)
    return _REFERENCE.sub(lambda match: str(value(match["path"], names)), text)


def _in_cel(text: str | None, names: Names) -> str | None:
    """An expression in CEL with its references replaced by literals."""
    return text and _REFERENCE.sub(
        lambda match: json.dumps(value(match["path"], names), ensure_ascii=False), text.strip()
    )


def _all_hold(tests: Tests, names: Names) -> bool:
    return all(_holds_at(path, names, expected) for path, expected in tests.items())


def _holds_at(path: str, names: Names, expected: Any) -> bool:
    present = value(path, names)
    if "*" in path and expected is not None:
        return any(_holds(part, expected) for part in present)
    return _holds(present, expected)


def _holds(present: Any, expected: Any) -> bool:
    if expected is None:
        return bool(present)
    return present in expected if isinstance(expected, list) else bool(present == expected)


def _parts(parent: Any) -> Iterator[Any]:
    """What a mapping or list holds, without what is not set."""
    values = parent.values() if isinstance(parent, Mapping) else parent
    if isinstance(values, list) or isinstance(parent, Mapping):
        yield from (part for part in values if part is not None)


def _alternatives(
    schema: Mapping[str, Any], definitions: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """A schema without references and choices: all that it may be."""
    if "$ref" in schema:
        yield from _alternatives(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    elif choices := schema.get("anyOf") or schema.get("oneOf"):
        for choice in choices:
            yield from _alternatives(choice, definitions)
    else:
        yield schema


def _below(schema: Mapping[str, Any], step: str) -> Iterator[Mapping[str, Any]]:
    """The schemas of what a step leads to."""
    properties = schema.get("properties", {})
    further = [schema.get("additionalProperties"), schema.get("items")]
    if step == "*":
        yield from properties.values()
        yield from (each for each in further if isinstance(each, Mapping))
    elif step in properties:
        yield properties[step]
    elif isinstance(further[0], Mapping):
        yield further[0]


def _is_open(schema: Mapping[str, Any]) -> bool:
    """Whether a value may have keys that its schema does not name."""
    closed = schema.get("additionalProperties") is False or "properties" in schema
    return not closed and schema.get("type", "object") == "object"

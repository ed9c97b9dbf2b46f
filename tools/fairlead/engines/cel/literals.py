"""Writes values as literals of CEL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_LARGEST = 2**63 - 1


def text(value: str) -> str:
    """A string in CEL, which has JSON's escapes but those of surrogates."""
    return json.dumps(value, ensure_ascii=False)


def value(of: Any) -> str:
    """A value of JSON in CEL, with the types that an API server gives to such a value: an integer
    is an int if it has 64 bits, and otherwise a double.

    Lists and maps are of type dyn, because CEL's own checks refuse to mix types in them. Raises
    ValueError for what JSON does not have, such as an infinite number.
    """
    if of is None:
        return "null"
    if isinstance(of, bool):
        return "true" if of else "false"
    if isinstance(of, int):
        return str(of) if -_LARGEST <= of <= _LARGEST else value(float(of))
    if isinstance(of, float):
        return json.dumps(of, allow_nan=False)
    if isinstance(of, str):
        return text(of)
    if isinstance(of, Mapping):
        keys = sorted(of)
        pairs = zip(keys, _alike([of[key] for key in keys]), strict=True)
        return f"dyn({{{', '.join(f'{text(key)}: {item}' for key, item in pairs)}}})"
    if isinstance(of, Sequence):
        return f"dyn([{', '.join(_alike(of))}])"
    raise ValueError(f"JSON has no {type(of).__name__}")


def _alike(values: Sequence[Any]) -> Iterable[str]:
    """The literals of values that stand beside each other, which have to be of one type."""
    literals = [value(text) for text in values]
    if len({_type(literal) for literal in literals}) <= 1:
        return literals
    return (text if text.startswith("dyn(") else f"dyn({text})" for text in literals)


def _type(literal: str) -> str:
    if literal.startswith('"'):
        return "string"
    if literal in ("true", "false"):
        return "bool"
    if literal == "null" or literal.startswith("dyn("):
        return literal[:4]
    return "double" if set(literal) & set(".eE") else "int"

"""Writes values as literals of CEL."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.engines.cel import writing
from fairlead.engines.cel.expressions import Node, literal

_LARGEST = 2**63 - 1


def text(value: str) -> str:
    """A string in CEL."""
    return writing.line(literal(value))


def value(of: Any) -> str:
    """A value of JSON in CEL, as `tree` has it. Raises ValueError."""
    return writing.line(tree(of))


def tree(of: Any) -> Node:
    """A value of JSON in CEL, with the types that an API server gives to such a value: an integer
    is an int if it has 64 bits, and otherwise a double.

    Lists and maps are of type dyn, because CEL's own checks refuse to mix types in them. Raises
    ValueError for what JSON does not have, such as an infinite number.
    """
    if isinstance(of, Mapping):
        keys = sorted(of)
        pairs = zip(map(literal, keys), _alike(of[key] for key in keys), strict=True)
        return dyn(Node("map", None, tuple(node for pair in pairs for node in pair)))
    if isinstance(of, Sequence) and not isinstance(of, str):
        return dyn(Node("list", None, tuple(_alike(of))))
    if isinstance(of, int) and not -_LARGEST <= of <= _LARGEST:
        return literal(float(of))
    if isinstance(of, float) and not math.isfinite(of):
        raise ValueError(f"JSON has no {of}")
    if of is None or isinstance(of, str | int | float):
        return literal(of)
    raise ValueError(f"JSON has no {type(of).__name__}")


def _alike(values: Iterable[Any]) -> list[Node]:
    """The trees of values that stand beside each other, which have to be of one type."""
    nodes = [tree(value) for value in values]
    types = {node.value[0] if node.kind == "literal" else node.kind for node in nodes}
    return nodes if len(types) <= 1 else [dyn(node) for node in nodes]


def dyn(node: Node) -> Node:
    """The value without its type."""
    return Node("call", "dyn", (undyn(node),))


def undyn(node: Node) -> Node:
    """The value without the functions that only hide its type."""
    while node.kind == "call" and node.value == "dyn":
        (node,) = node.args
    return node

"""What can be said of an expression in CEL without its evaluation."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from fairlead.engines.cel.expressions import Node, literal, parse
from fairlead.engines.cel.literals import dyn, undyn

TRUE, FALSE = literal(True), literal(False)
EMPTY_LIST, EMPTY_MAP, NONE = Node("list"), Node("map"), parse("optional.none()")
_OPTIONAL = Node("name", "optional")
_SMALL = 8
"""Nodes of what may stand in several places."""
_LISTS = ("map", "filter", "sort", "distinct", "flatten")


def bare(node: Node) -> Node:
    """A text or a boolean as such, if the node is one. Numbers keep the function that hides their
    type: CEL does not compare an int with a double otherwise.
    """
    value = undyn(node)
    is_bare = value.kind == "literal" and value.value[0] in ("str", "bool")
    return value if is_bare else node


def boolean(node: Node) -> bool | None:
    """The value of a condition that is always true or always false."""
    value = undyn(node)
    return value == TRUE if value in (TRUE, FALSE) else None


def text(node: Node) -> str | None:
    """The value of a text that is always the same."""
    return node.value[1] if node.kind == "literal" and node.value[0] == "str" else None


def is_text(node: Node) -> bool:
    """Whether it is certainly a text."""
    if node.kind == "+":
        return any(map(is_text, node.args))
    if node.kind == "?:":
        return all(map(is_text, node.args[1:]))
    return text(node) is not None or (node.kind == "method" and node.value == "join")


def is_list(node: Node) -> bool:
    """Whether it is certainly a list."""
    return node.kind == "list" or (node.kind == "method" and node.value in _LISTS)


def is_small(node: Node) -> bool:
    """Whether it may stand in several places: it is short, and costs nothing."""
    for number, part in enumerate(undyn(node).walk()):
        free = part.kind not in ("call", "method") or part.value in ("dyn", "of", "none")
        if number >= _SMALL or not free:
            return False
    return True


def some(value: Node) -> Node:
    """The optional value that is there."""
    return Node("method", "of", (_OPTIONAL, value))


def held(node: Node) -> Node | None:
    """The value of an optional one: NONE if it is missing, and None if that is not known."""
    if node == NONE:
        return NONE
    is_some = node.kind == "method" and node.value == "of" and node.args[0] == _OPTIONAL
    return node.args[1] if is_some else None


@functools.lru_cache(maxsize=10_000)
def items(node: Node) -> tuple[Node, ...] | None:
    """The elements of a list or the keys of a map; None if they are not known."""
    if node.kind not in ("list", "map") or any(arg.kind == "optional" for arg in node.args):
        return None
    return tuple(map(bare, node.args[::2] if node.kind == "map" else node.args))


def part(of: Node, key: Node) -> Node | None:
    """The part of a list or of a map; NONE if it has none, and None if that is not known."""
    if of.kind == "map":
        entries = _entries(of)
        return entries.get(key, NONE) if entries is not None and text(key) is not None else None
    elements, index = items(of), undyn(key)
    if elements is None or index.kind != "literal" or index.value[0] != "int":
        return None
    return of.args[index.value[1]] if 0 <= index.value[1] < len(elements) else NONE


@functools.lru_cache(maxsize=10_000)
def _entries(of: Node) -> Mapping[Node, Node] | None:
    """The values of a map by their keys; None unless these are texts that are always the same."""
    keys = items(of)
    if keys is None or any(text(key) is None for key in keys):
        return None
    return dict(zip(keys, of.args[1::2], strict=True))


def parts(of: Node, key: Node) -> list[Node]:
    """The parts of a list or of a map that can have this key; none if that is not known."""
    if items(of) is None:
        return []
    if undyn(key).kind == "literal":
        value = part(of, key)
        return [] if value is None or value == NONE else [undyn(value)]
    return [*map(undyn, of.args[1::2] if of.kind == "map" else of.args)]


def of_one_type(before: Node, args: tuple[Node, ...]) -> tuple[Node, ...]:
    """New elements or values of a list or a map, which have to be of one type. Those before were:
    so new ones of the same kinds are, too.
    """
    step = {"list": 1, "map": 2}.get(before.kind, 0)
    after = args[step - 1 :: step] if step else ()
    if len(after) <= 1 or _type(*after) or any(arg.kind == "optional" for arg in args):
        return args
    if [arg.kind for arg in before.args[step - 1 :: step]] == [arg.kind for arg in after]:
        return args
    return tuple(dyn(arg) if n % step == step - 1 else arg for n, arg in enumerate(args))


def together(one: Node, other: Node) -> Node | None:
    """Two lists as one; None if their elements may be of different types."""
    elements = one.args + other.args
    lists = one.kind == other.kind == "list"
    return Node("list", None, elements) if lists and _type(*elements) else None


def _type(*nodes: Node) -> str:
    """The type that all certainly have; empty if that is not certain."""
    types = {
        "str" if is_text(node) else node.value[0] if node.kind in ("literal", "message") else ""
        for node in nodes
    }
    return types.pop() if len(types) == 1 else ""

"""The names that macros of CEL bind, and what stands for the names in an expression."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.engines.cel.expressions import Node

_CEL, _VARIABLES = Node("name", "cel"), Node("name", "variables")
_BINDING = {
    **dict.fromkeys(("all", "exists", "exists_one", "existsOne"), slice(1, -1)),
    **dict.fromkeys(("map", "filter", "sortBy", "optMap", "optFlatMap"), slice(1, 2)),
    **dict.fromkeys(("transformList", "transformMap", "transformMapEntry"), slice(1, 3)),
}
"""The arguments of macros that are the names that they bind."""


def bound(node: Node) -> frozenset[str]:
    """The names that the node binds in its last arguments; empty if it is no macro."""
    if node.kind != "method":
        return frozenset()
    binds = node.value == "bind" and node.args[0] == _CEL
    names = node.args[_BINDING.get(node.value, slice(1, 2) if binds else slice(0))]
    return frozenset(name.value for name in names)


def has_macros(node: Node) -> bool:
    """Whether the node or a part of it is a macro."""
    return any(map(bound, node.walk()))


def reads(node: Node, *, repeated: bool = False) -> Iterator[tuple[str, bool]]:
    """The variables that the node reads, each as often as it does, and whether a macro may repeat
    that.
    """
    if node.kind in (".", ".?") and node.args[0] == _VARIABLES:
        yield node.value, repeated
    is_macro = bool(bound(node))
    for number, arg in enumerate(node.args):
        yield from reads(arg, repeated=repeated or (is_macro and number > 0))


def substituted(node: Node, name: str, by: Node) -> Node:
    """The node, in which something else stands where a name is read."""
    if node == Node("name", name):
        return by
    if name not in node.names:
        return node
    first, rest = node.args[:1], node.args[1:]
    first = tuple(substituted(arg, name, by) for arg in first)
    if name not in bound(node):
        rest = tuple(substituted(arg, name, by) for arg in rest)
    return node.having((*first, *rest))

"""Operators of CEL of which some operands are known."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from fairlead.engines.cel.expressions import Node, literal
from fairlead.engines.cel.literals import undyn
from fairlead.engines.cel.values import EMPTY_LIST, FALSE, TRUE, boolean, is_text, text, together

OPPOSITE = {"==": "!=", "!=": "=="}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def negated(condition: Node) -> Node:
    """The opposite of a condition."""
    value = boolean(condition)
    if value is not None:
        return literal(not value)
    if condition.kind == "!":
        return condition.args[0]
    if condition.kind in OPPOSITE:
        return Node(OPPOSITE[condition.kind], None, condition.args)
    return Node("!", None, (condition,))


def both(one: Node, other: Node) -> Node:
    """Whether both conditions are true."""
    if boolean(one) is not None:
        return other if boolean(one) else FALSE
    return _decided(Node("&&", None, (one, other)), by=False)


def either(one: Node, other: Node) -> Node:
    """Whether one of two conditions is true."""
    if boolean(one) is not None:
        return TRUE if boolean(one) else other
    return _decided(Node("||", None, (one, other)), by=True)


def _decided(node: Node, *, by: bool) -> Node:
    """The node, unless its second operand is known."""
    one, other = node.args
    value = boolean(other)
    return node if value is None else other if value is by else one


def choice(condition: Node, one: Node, other: Node) -> Node:
    """What a condition decides between."""
    value = boolean(condition)
    if value is not None:
        return one if value else other
    if undyn(one) == undyn(other):
        return one
    if one == FALSE:
        return both(negated(condition), other)
    if other == FALSE:
        return both(condition, one)
    return either(condition, other) if one == TRUE else Node("?:", None, (condition, one, other))


def comparison(node: Node) -> Node:
    """A comparison."""
    left, right = map(undyn, node.args)
    if left == right and node.kind in OPPOSITE:
        return literal(node.kind == "==")
    if not left.kind == right.kind == "literal" or left.value[0] != right.value[0]:
        return node
    return literal(COMPARISONS[node.kind](left.value[1], right.value[1]))


def addition(node: Node) -> Node:
    """A sum of lists or of texts."""
    left, right = node.args
    if undyn(left) == EMPTY_LIST:
        return right
    if undyn(right) == EMPTY_LIST or (is_text(left) and text(right) == ""):
        return left
    if joined := together(left, right):
        return joined
    if right.kind == "+" and is_text(right):  # as if without parentheses
        left, right = addition(Node("+", None, (left, right.args[0]))), right.args[1]
    *before, last = left.args if left.kind == "+" else (left,)
    one, other = text(last), text(right)
    if one is None or other is None:
        return Node("+", None, (left, right))
    return Node("+", None, (*before, literal(one + other))) if before else literal(one + other)

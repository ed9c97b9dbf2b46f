"""Shortens expressions in CEL by what is known about them before any request comes.

What is folded has the same value as before. An operand that would fail may be gone, if the value
does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.engines.cel import macros, operators, values
from fairlead.engines.cel.expressions import Node, literal
from fairlead.engines.cel.literals import dyn, undyn
from fairlead.engines.cel.values import EMPTY_LIST, EMPTY_MAP, FALSE, NONE, TRUE

_GLOBAL = {"object", "oldObject", "request", "namespaceObject", "params", "variables"}
_PARAMETERS, _VARIABLES = Node("name", "params"), Node("name", "variables")
_OF_TEXTS: dict[str, Callable[..., Any]] = {
    "contains": lambda text, part: part in text,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "lowerAscii": lambda text: text.lower() if text.isascii() else None,
}
_OF_NOTHING = {
    "all": TRUE,
    "exists": FALSE,
    "join": literal(""),
    **dict.fromkeys(("map", "filter", "transformList", "sort", "distinct", "flatten"), EMPTY_LIST),
    **dict.fromkeys(("transformMap", "transformMapEntry"), EMPTY_MAP),
}
"""What methods of an empty list or map give."""
_Assumed = Mapping[Node, bool]


@dataclass(frozen=True)
class Known:
    """What is known about all requests of a policy.

    Attributes:
        parameters: the value of `params`.
        values: what expressions are, such as `request.operation`.
        choices: the texts of which expressions are one.
        conditions: what is true.
    """

    parameters: Node = EMPTY_MAP
    values: Mapping[Node, Node] = field(default_factory=dict)
    choices: Mapping[Node, frozenset[str]] = field(default_factory=dict)
    conditions: Sequence[Node] = ()


class Folding:
    """Folds expressions that may read variables. `variables` are those by their names, folded."""

    def __init__(self, known: Known, variables: Mapping[str, Node]) -> None:
        self._known = known
        self._variables = variables
        self._true: _Assumed = {}
        self._known_alternatives: dict[Node, list[Node]] = {}
        for condition in known.conditions:
            self._true = {**self._true, **dict(self._implied(self.fold(condition), True))}

    def fold(self, node: Node, assumed: _Assumed | None = None) -> Node:
        """The expression, where conditions are `assumed` to be true or false."""
        assumed = self._true if assumed is None else assumed
        if node.kind in ("&&", "||", "?:"):
            folded = self._logic(node, assumed)
        else:
            folded = self._operation(self._with_folded_parts(node, assumed))
        value = self._known.values.get(folded, folded)
        return literal(assumed[value]) if value in assumed else value

    def parameter(self, node: Node) -> Node | None:
        """The list or the map that a part of the parameters is, such as `params.a.b`; None if the
        node is something else.
        """
        is_path = node == _PARAMETERS or (node.kind in (".", "[") and node.names == {"params"})
        seen = self._seen(node) if is_path else node
        return dyn(seen) if is_path and seen != node else None

    def _logic(self, node: Node, assumed: _Assumed) -> Node:
        condition = self.fold(node.args[0], assumed)
        true = {**assumed, **dict(self._implied(condition, True))}
        false = {**assumed, **dict(self._implied(condition, False))}
        if node.kind == "&&":
            return operators.both(condition, self.fold(node.args[1], true))
        if node.kind == "||":
            return operators.either(condition, self.fold(node.args[1], false))
        one, other = self.fold(node.args[1], true), self.fold(node.args[2], false)
        return operators.choice(condition, one, other)

    def _implied(self, condition: Node, value: bool) -> Iterator[tuple[Node, bool]]:
        """What follows for conditions if this one has this value."""
        yield condition, value
        if condition.kind == "!":
            yield from self._implied(condition.args[0], not value)
        elif condition.kind == ("&&" if value else "||"):
            for arg in condition.args:
                yield from self._implied(arg, value)
        elif opposite := operators.OPPOSITE.get(condition.kind):
            left, right = condition.args
            yield Node(opposite, None, (left, right)), not value
            others = self._known.choices.get(left, frozenset()) - {values.text(right)}
            if len(others) == 1:
                yield Node(condition.kind, None, (left, literal(*others))), not value

    def _with_folded_parts(self, node: Node, assumed: _Assumed) -> Node:
        names = macros.bound(node)
        if names & _GLOBAL:
            return node
        if _asks_for_field(node):
            (part,) = node.args
            return node.having((part.having((self.fold(part.args[0], assumed),)),))
        within = {key: value for key, value in assumed.items() if not names & key.names}
        args = [self.fold(arg, within if n else assumed) for n, arg in enumerate(node.args)]
        if node.kind not in ("list", "map"):
            return node.having(tuple(map(values.bare, args)))
        if node.kind == "map":
            args[::2] = map(values.bare, args[::2])
        return node.having(values.of_one_type(node, tuple(args)))

    def _operation(self, node: Node) -> Node:
        """A node of which the parts are folded."""
        if node.kind == "!":
            return operators.negated(*node.args)
        if node.kind == "+":
            return operators.addition(node)
        if node.kind in operators.COMPARISONS:
            return self._comparison(node)
        if node.kind == "in":
            return self._membership(node)
        if node.kind in (".", ".?", "[", "[?"):
            return self._field(node)
        if node.kind == "call":
            return self._call(node)
        return self._method(node) if node.kind == "method" else node

    def _comparison(self, node: Node) -> Node:
        left, right = node.args
        choices = self._known.choices.get(left)
        if node.kind in operators.OPPOSITE and right.kind == "literal" and choices is not None:
            return node if values.text(right) in choices else literal(node.kind == "!=")
        return operators.comparison(node)

    def _membership(self, node: Node) -> Node:
        value, items = node.args[0], values.items(self._seen(node.args[1]))
        if not items:
            return node if items is None else FALSE
        texts = {values.text(item) for item in items}
        if None in texts:
            return node
        text = values.text(value)
        choices = self._known.choices.get(value) if text is None else frozenset([text])
        if choices is None or (choices & texts and not choices <= texts):
            return node
        return literal(choices <= texts)

    def _field(self, node: Node) -> Node:
        """A field or an element of something."""
        operand = node.args[0]
        if operand == _VARIABLES:
            variable = self._variables.get(node.value) if node.kind == "." else None
            return variable if variable is not None and values.is_small(variable) else node
        if operand == NONE:
            return NONE
        value = values.held(operand)
        is_optional = node.kind.endswith("?") or value is not None
        part = self._part(value or operand, _key(node))
        if part is None or (part == NONE and not is_optional):
            return node
        return values.some(part) if is_optional and part != NONE else part

    def _part(self, of: Node, key: Node) -> Node | None:
        """The part of something, if it may stand for it; NONE if there is none."""
        if (part := values.part(of, key)) is not None:
            return part
        part, *further = {values.part(each, key) for each in self._alternatives(of)}
        if further or part is None or part == NONE:
            return None if further else part
        return dyn(part) if values.is_small(part) else None

    def _call(self, node: Node) -> Node:
        operand = undyn(node.args[0]) if len(node.args) == 1 else node
        if node.value == "size":
            return self._size(operand, node)
        if _asks_for_field(node):
            of, key = operand.args[0], literal(operand.value)
            parts = [values.part(each, key) for each in self._alternatives(of)]
            is_there = {part != NONE for part in parts}
            return node if None in parts or len(is_there) > 1 else literal(*is_there)
        if node.value == "string" and operand.kind == "literal":
            return literal(str(operand.value[1])) if operand.value[0] in ("str", "int") else node
        return dyn(operand) if node.value == "dyn" else node

    def _size(self, operand: Node, node: Node) -> Node:
        seen = self._seen(operand)
        whole = values.text(seen) if seen.kind == "literal" else values.items(seen)
        return node if whole is None else literal(len(whole))

    def _method(self, node: Node) -> Node:
        seen, args = self._seen(node.args[0]), node.args[1:]
        if node.value == "size" and not args:
            return self._size(seen, node)
        if (value := values.held(seen)) is not None:
            return _of_optional(node, seen, value)
        texts = [values.text(arg) for arg in (seen, *args)]
        if node.value in _OF_TEXTS and None not in texts:
            result = _OF_TEXTS[node.value](*texts)
            return node if result is None else literal(result)
        items = values.items(seen)
        if items == () and node.value in _OF_NOTHING:
            return _OF_NOTHING[node.value]
        if items and len(items) == 1:
            return self._of_one_item(node, items[0])
        if node.value in ("all", "exists") and args[-1] == literal(node.value == "all"):
            return args[-1]
        return self._filter(node) if node.value == "filter" and len(args) == 2 else node

    def _of_one_item(self, node: Node, item: Node) -> Node:
        """What a method gives for a list with one element or a map with one key."""
        if node.value in ("sort", "distinct"):
            return Node("list", None, (item,))
        if node.value == "join" and values.is_text(item):
            return item
        if node.value not in ("all", "exists", "map", "filter") or len(node.args) != 3:
            return node
        _, name, body = node.args
        nested = frozenset[str]().union(*map(macros.bound, body.walk()))
        if nested & item.names or not values.is_small(item):
            return node
        result = self.fold(macros.substituted(body, name.value, item))
        if node.value == "map":
            return Node("list", None, (result,))
        if node.value == "filter":
            return operators.choice(result, Node("list", None, (item,)), EMPTY_LIST)
        return result

    def _filter(self, node: Node) -> Node:
        operand, name, condition = node.args
        if condition == FALSE:
            return EMPTY_LIST
        if condition == TRUE:
            copied = Node("method", "map", (operand, name, name))
            return operand if values.is_list(operand) else copied
        if operand.kind != "list":
            return node
        kept = (
            item
            for item in operand.args
            if item.kind != "literal"
            or self.fold(macros.substituted(condition, name.value, item)) != FALSE
        )
        return node.having((operand.having(tuple(kept)), name, condition))

    def _seen(self, node: Node) -> Node:
        """The only list or map that a node can be, or the node."""
        alternatives = self._alternatives(node)
        return alternatives[0] if len(alternatives) == 1 else undyn(node)

    def _alternatives(self, node: Node) -> list[Node]:
        """The lists and maps of which a node is one, by variables and parameters; or the node."""
        if node not in self._known_alternatives:
            self._known_alternatives[node] = self._found_alternatives(undyn(node))
        return self._known_alternatives[node]

    def _found_alternatives(self, node: Node) -> list[Node]:
        if node == _PARAMETERS:
            return [undyn(self._known.parameters)]
        if node.kind == "?:":
            return [each for arg in node.args[1:] for each in self._alternatives(arg)]
        if node.kind not in (".", "["):
            return [node]
        if node.args[0] == _VARIABLES:
            alternatives = self._alternatives(self._variables.get(node.value, node.args[0]))
        else:
            outer = self._alternatives(node.args[0])
            key = _key(node)
            alternatives = [part for each in outer for part in values.parts(each, key) or [node]]
        is_known = alternatives and all(each.kind in ("list", "map") for each in alternatives)
        return alternatives if is_known else [node]


def _asks_for_field(node: Node) -> bool:
    """Whether it is `has(a.b)`, of which only `a` is a value."""
    return node.kind == "call" and node.value == "has" and node.args[0].kind == "."


def _key(node: Node) -> Node:
    """The key of a field or an element."""
    return node.args[1] if node.kind[0] == "[" else literal(node.value)


def _of_optional(node: Node, optional: Node, value: Node) -> Node:
    """What a method gives for an optional value, which is NONE if it is missing."""
    if node.value == "hasValue":
        return literal(value != NONE)
    if node.value == "orValue":
        return node.args[1] if value == NONE else value
    if node.value == "or":
        return node.args[1] if value == NONE else optional
    return node

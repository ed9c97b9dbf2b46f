"""Expressions in CEL as trees.

Source: the Common Expression Language's definition, cel.expr.Expr.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fairlead.common import mistakes, yaml_files
from fairlead.common.progress import Progress
from fairlead.common.yaml_files import Location
from fairlead.convert.reading import Lenient
from fairlead.convert.targets import Untakable
from fairlead.programs import matcher

LIST, MAP = "[]", "{}"
"""Functions: of the elements of a list, and of the keys and values of a map or a message."""

_MOST_PARTS = 20_000
"""Parts of an expression. One with variables in variables can have very many."""


@dataclass(frozen=True)
class Const:
    """A constant: text, number, boolean or null."""

    value: Any


@dataclass(frozen=True)
class Name:
    """A variable, or what stands before a function of a library."""

    name: str


@dataclass(frozen=True)
class Field:
    """A part of something: `a.key`, `a['key']`, and `a.?key`, `a[?'key']` if it may be missing."""

    operand: Node
    key: str


@dataclass(frozen=True)
class Call:
    """A function, a macro or an operator. The object of a method is the first of `args`."""

    function: str
    args: tuple[Node, ...]


Node = Const | Name | Field | Call


class Named(Lenient):
    """An expression with a name: a variable or a condition."""

    name: str = ""
    expression: str


class Expressions:
    """The trees of all expressions in some documents, which are read together."""

    def __init__(self, documents: Iterable[yaml_files.Document], progress: Progress) -> None:
        texts = sorted({text for each in documents for text in _texts(each.value)})
        answers = matcher.ask({"expressions": texts}, progress)["expressions"] if texts else []
        self._answers: Mapping[str, Mapping[str, Any]] = dict(zip(texts, answers, strict=True))

    def tree(self, document: yaml_files.Document, at: Location, text: str) -> Node:
        """The tree of the expression `at` a place in the document. Raises InputError if it is
        none.
        """
        answer = self._answers[text]
        if "problem" in answer:
            problem = " ".join(answer["problem"].split())
            where = mistakes.path(tuple(at))
            raise document.error(f"{where} is no expression in CEL: {problem}", at)
        return _node(answer["tree"])


def _texts(value: Any, key: str = "") -> Iterator[str]:
    if key == "expression" and isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _texts(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _node(tree: Mapping[str, Any]) -> Node:
    match tree:
        case {"constExpr": constant}:
            ((kind, value),) = constant.items()
            whole = kind in ("int64Value", "uint64Value")
            return Const(int(value) if whole else None if kind == "nullValue" else value)
        case {"identExpr": {"name": name}}:
            return Name(name)
        case {"selectExpr": {"operand": operand, "field": key}}:
            return Field(_node(operand), key)
        case {"listExpr": items}:
            return Call(LIST, tuple(map(_node, items.get("elements", []))))
        case {"structExpr": struct}:
            pairs = [
                (_node(each["mapKey"]) if "mapKey" in each else Const(each["fieldKey"]), each)
                for each in struct.get("entries", [])
            ]
            return Call(
                MAP, tuple(part for key, each in pairs for part in (key, _node(each["value"])))
            )
    call = tree["callExpr"]
    target = [call["target"]] if "target" in call else []
    args = tuple(map(_node, (*target, *call.get("args", []))))
    match call["function"], args:
        case "_?._" | "_[_]" | "_[?_]", (operand, Const(str() as key)):
            return Field(operand, key)
        case "Get", (Name("resource"), Const("v1"), Const("namespaces"), *_):
            return Name("namespaceObject")  # Kyverno's function reads the same object
        case "-_", (Const(int() as number),):
            return Const(-number)
    return Call(call["function"], args)


def variables(
    document: yaml_files.Document, at: Location, named: Sequence[Named], expressions: Expressions
) -> dict[str, Node]:
    """The trees of variables, each of which may use those before it. Raises InputError, Untakable
    for too many parts.
    """
    trees: dict[str, Node] = {}
    for number, each in enumerate(named):
        tree = expressions.tree(document, (*at, number, "expression"), each.expression)
        trees[each.name] = inlined(tree, trees)
        if next(islice(parts(trees[each.name]), _MOST_PARTS, None), None):
            raise Untakable(f"its variable {each.name} is too long to be read")
    return trees


def inlined(node: Node, variables: Mapping[str, Node]) -> Node:
    """The tree with what each variable is in place of `variables.NAME`."""
    return replaced(node, {Field(Name("variables"), name): of for name, of in variables.items()})


def replaced(node: Node, others: Mapping[Node, Node]) -> Node:
    """The tree with other parts in place of those that `others` has."""
    if node in others:
        return others[node]
    match node:
        case Field(operand, key):
            return Field(replaced(operand, others), key)
        case Call(function, args):
            return Call(function, tuple(replaced(arg, others) for arg in args))
    return node


def parts(node: Node) -> Iterator[Node]:
    """The node, and all below it."""
    yield node
    for each in node.args if isinstance(node, Call) else ():
        yield from parts(each)
    if isinstance(node, Field):
        yield from parts(node.operand)


def path(node: Node) -> tuple[str, ...] | None:
    """The variable and the keys of a field, such as (`object`, `spec`); None for anything else."""
    match node:
        case Name(name):
            return (name,)
        case Field(operand, key):
            above = path(operand)
            return (*above, key) if above else None
    return None


def mentions(node: Node, words: re.Pattern[str]) -> bool:
    """Whether an expression has one of the words in a key or a text."""
    texts = [getattr(part, "key", None) or getattr(part, "value", None) for part in parts(node)]
    return any(isinstance(text, str) and words.search(text) for text in texts)

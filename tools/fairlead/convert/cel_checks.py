"""Reads conditions in CEL as checks of fields."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import re2

from fairlead.convert.cel import Call, Const, Field, Name, Node, parts, replaced
from fairlead.convert.checks import EACH, LISTS, MISSING, Check, Path

_Paths = Mapping[str, Path]
"""What variables stand for: the object, and elements of its lists."""

_OBJECT: _Paths = {"object": ()}
_NEGATED = {"_==_": "_!=_", "_>_": "_<=_", "_>=_": "_<_"}
_NEGATED |= {negation: name for name, negation in _NEGATED.items()}
_MIRRORED = {"_>_": "_<_", "_>=_": "_<=_", "_<_": "_>_", "_<=_": "_>=_"}
_ORDERS = {"isGreaterThan": "_>_", "isLessThan": "_<_"}

# By operator: the pattern of a text or number, and whether a value is so.
_TESTS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "_==_": ("{}", operator.eq),
    "_!=_": ("!{}", operator.ne),
    "_>_": (">{}", operator.gt),
    "_>=_": (">={}", operator.ge),
    "_<_": ("<{}", operator.lt),
    "_<=_": ("<={}", operator.le),
    "startsWith": ("{}*", str.startswith),
    "endsWith": ("*{}", str.endswith),
    "contains": ("*{}*", operator.contains),
    "matches": ("{}", lambda value, regex: bool(re2.search(regex, value))),
}


class Unread(Exception):
    """A condition that is no check of fields that convert reads."""


def alternatives(node: Node) -> list[list[Check]]:
    """The checks, all of which one of the alternatives asks for, for a condition about `object`.
    Raises Unread.
    """
    try:
        return [list(_checks(node, _OBJECT))]
    except Unread:
        operands = _operands(node, "_||_")
        if len(operands) == 1:
            raise
    return [list(_checks(operand, _OBJECT)) for operand in operands]


def fields(node: Node, paths: _Paths = _OBJECT) -> Iterator[str]:
    """The fields of the object, and of elements of its lists, that an expression names."""
    if field := _path(node, paths):
        yield ".".join(step for step in field if step != EACH)
        return
    inner = paths
    match node:
        case Call("all" | "exists" | "filter" | "map", (operand, Name(name), *_)):
            lists = [each for part in parts(operand) if (each := _path(part, paths))]
            inner = {**paths, name: (*lists[0], EACH)} if lists else paths
    for arg in node.args if isinstance(node, Call) else ():
        yield from fields(arg, inner)
    if isinstance(node, Field):
        yield from fields(node.operand, paths)


def _checks(node: Node, paths: _Paths, *, negated: bool = False) -> Iterator[Check]:
    """The checks of a condition, or of its negation."""
    match node:
        case Call("!_", (operand,)):
            yield from _checks(operand, paths, negated=not negated)
        case Call("_&&_" | "_||_" as name, _):
            operands = _operands(node, name)
            if (name == "_||_") != negated:
                yield from _one_of(operands, paths, negated=negated)
            else:
                for operand in operands:
                    yield from _checks(operand, paths, negated=negated)
        case Call("_?_:_", (condition, first, Const(False))):
            yield from _checks(Call("_&&_", (condition, first)), paths, negated=negated)
        case Call("_?_:_", (condition, first, Const(True))):
            other = Call("_||_", (Call("!_", (condition,)), first))
            yield from _checks(other, paths, negated=negated)
        case Call("all" | "exists" as name, (Call("[]", elements), Name() as variable, body)):
            of_each = tuple(replaced(body, {variable: element}) for element in elements)
            joined = Call("_&&_" if name == "all" else "_||_", of_each)
            yield from _checks(joined, paths, negated=negated)
        case Call("all" | "exists" as name, (operand, Name(element), body)) if (
            name == "all"
        ) != negated and (lists := _lists(operand, paths)):
            for each in lists:
                yield from _checks(body, {**paths, element: (*each, EACH)}, negated=negated)
        case _:
            yield _check(node, paths, negated=negated)


def _operands(node: Node, name: str) -> list[Node]:
    """The operands of an operator that stands between several."""
    if isinstance(node, Call) and node.function == name:
        return [operand for arg in node.args for operand in _operands(arg, name)]
    return [node]


def _lists(node: Node, paths: _Paths) -> list[Path]:
    """The lists of objects that a list is made of."""
    match node:
        case Call("_+_", args):
            return [each for arg in args for each in _lists(arg, paths)]
    if field := _path(node, paths):
        return [field]
    raise Unread


def _one_of(operands: list[Node], paths: _Paths, *, negated: bool) -> Iterator[Check]:
    """One of the operands holds: all ask the same field, but those that say that it, or what it
    belongs to, is missing.
    """
    asked = [list(_checks(operand, paths, negated=negated)) for operand in operands]
    missing = [each[0].path for each in asked if [check.test for check in each] == [MISSING]]
    rest = [each for each in asked if [check.test for check in each] != [MISSING]]
    if len(rest) > 1:
        if any(len(each) > 1 or each[0].is_regex for each in rest):
            raise Unread
        tests = [check.test for (check,) in rest]
        rest = [[replace(check, test=" | ".join(tests))] for (check,) in rest]
    if not rest or any(each != rest[0] for each in rest):
        raise Unread
    for check in rest[0]:
        if any(check.path[: len(field)] != field for field in missing):
            raise Unread
        # Nothing is asked of a list that is missing.
        is_optional = check.optional or any(field[-1] not in LISTS for field in missing)
        yield replace(check, optional=is_optional)


def _check(node: Node, paths: _Paths, *, negated: bool) -> Check:
    """The check of a condition without && and ||."""
    match node:
        case Call("has" | "hasValue", (operand,)) if field := _path(operand, paths):
            return Check(field, MISSING if negated else "*")
        case Call("@in", (Const(str() as key), operand)) if (
            field := _path(operand, paths)
        ) and field[-1] in ("annotations", "labels"):
            return Check((*field, key), MISSING if negated else "*")
        case Call("@in", (operand, Call("[]", elements))) if not negated:
            return _tested(operand, "_==_", elements, paths)
        case Call("startsWith" | "endsWith" | "contains" | "matches" as name, (operand, argument)):
            check = _tested(operand, name, (argument,), paths)
            if not negated:
                return check
            if check.is_regex or check.optional:
                raise Unread
            return replace(check, test=f"!{check.test}")
        case Call(name, (one, other)) if (name := _ORDERS.get(name, name)) in _NEGATED:
            return _compared(_NEGATED[name] if negated else name, one, other, paths)
    return _tested(node, "_==_", (Const(not negated),), paths)


def _compared(name: str, one: Node, other: Node, paths: _Paths) -> Check:
    match one, other:
        case Call("compareTo", (amount, most)), Const(0):
            return _compared(name, amount, most, paths)
        case Call("quantity", (amount,)), Call("quantity", (most,)):
            return _compared(name, amount, most, paths)
        case Const(_), _:
            return _tested(other, _MIRRORED.get(name, name), (one,), paths)
    return _tested(one, name, (other,), paths)


def _tested(operand: Node, name: str, constants: tuple[Node, ...], paths: _Paths) -> Check:
    """The check that a field compares so with one of the constants."""
    default: Node | None = None
    match operand:
        case Call("orValue", (inner, Const(_) as default)):
            operand = inner
        case Call("string" | "int", (inner,)):
            operand = inner
    field = _path(operand, paths)
    if not field or not all(isinstance(each, Const) for each in constants):
        raise Unread
    values = [each.value for each in constants if isinstance(each, Const)]
    texts = [value if isinstance(value, str) else str(value).lower() for value in values]
    pattern, compare = _TESTS[name]
    if name != "matches" and any(re.search(r"[*?|&<>!]", text) for text in texts):
        raise Unread
    test = " | ".join(pattern.format(text) for text in texts)
    optional = False
    if isinstance(default, Const):
        try:
            optional = any(compare(default.value, value) for value in values)
        except (TypeError, re2.error) as error:
            raise Unread from error
    return Check(field, "?*" if test == "!" else test, optional, name == "matches")


def _path(node: Node, paths: _Paths) -> Path | None:
    """The path of a field. An empty map or list in place of a part that is missing changes
    nothing.
    """
    match node:
        case Call("orValue", (operand, Call("[]" | "{}", ()))):
            return _path(operand, paths)
        case Field(operand, key):
            above = _path(operand, paths)
            return None if above is None else (*above, key)
        case Name(name):
            return paths.get(name)
    return None

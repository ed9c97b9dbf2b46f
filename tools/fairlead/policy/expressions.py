"""Evaluates the Jinja2 expressions in an intent's files for engines (`engines/cel.yaml`,
`engines/gatekeeper.yaml`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, UndefinedError, nodes
from jinja2.environment import Template, TemplateExpression
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MISTAKES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a mistake in an expression raises besides Jinja2's own errors."""


def rendered(value: Any, names: Mapping[str, Any]) -> Any:
    """`value` with the expressions in its texts evaluated. A text that is one expression becomes
    its value, and items of lists that become None are left out. Raises TemplateError.
    """
    if isinstance(value, dict):
        return {key: rendered(part, names) for key, part in value.items()}
    if isinstance(value, list):
        items = [rendered(item, names) for item in value]
        return [item for item in items if item is not None]
    if not isinstance(value, str) or "{" not in value:
        return value
    if len(value) > _LONGEST:
        raise TemplateSyntaxError(f"it has more than {_LONGEST} characters", 1)
    text = value.strip()
    if text.startswith("{{") and text.endswith("}}") and "{{" not in text[2:]:
        result = _expression(text[2:-2])(**names)
        if isinstance(result, Undefined):
            raise UndefinedError(f"{text} has no value: for none, write `else none`")
        return result
    parts: list[str] = []
    for part in _template(value).generate(names):
        parts.append(part)
        _require_short(sum(map(len, parts)))
    return "".join(parts)


@functools.cache
def _expression(text: str) -> TemplateExpression:
    return _templates().compile_expression(text, undefined_to_none=False)


@functools.cache
def _template(text: str) -> Template:
    return _templates().from_string(text)


class _Expressions(ImmutableSandboxedEnvironment):
    """Expressions in a sandbox, because they also come out of a cluster's ConfigMaps. Each ends
    soon, and what filters make has a bound: there are no loops, macros and variables, no powers, no
    repeated texts and no padding.
    """

    intercepted_binops = frozenset(["*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False)
        self.globals.clear()
        own = {"join": _join, "replace": _replace}
        self.filters = {name: _bounded(own.get(name, self.filters[name])) for name in _FILTERS}

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator != "**" and all(isinstance(side, int | float) for side in (left, right)):
            return super().call_binop(context, operator, left, right)
        raise TypeError(f"the operator {operator} cannot stand here: texts would grow without end")

    def is_safe_callable(self, obj: Any) -> bool:
        if isinstance(obj, Undefined):  # calling it says what is not defined
            return True
        return getattr(obj, "__name__", None) in _METHODS and super().is_safe_callable(obj)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        if any(template.find(kind) for kind in _STATEMENTS):
            raise TemplateSyntaxError("only expressions and `if` can stand here", 1)
        return template


_FILTERS = (
    *("abs", "count", "d", "default", "dictsort", "first", "float", "int", "items", "join"),
    *("last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace"),
    *("reverse", "round", "select", "selectattr", "sort", "string", "sum", "tojson", "trim"),
    *("unique", "upper"),
)
_STATEMENTS: tuple[type[nodes.Stmt], ...] = (
    *(nodes.For, nodes.Macro, nodes.CallBlock, nodes.FilterBlock),
    *(nodes.Assign, nodes.AssignBlock, nodes.With),
    *(nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends),
)
_METHODS = ("endswith", "get", "items", "keys", "lower", "split", "startswith", "upper", "values")


_LONGEST = 4096
"""Characters of a text with expressions."""
_LARGEST = 16 * 1024
"""Characters of a text, or items of a list, that a filter makes."""


def _require_short(size: int) -> None:
    if size > _LARGEST:
        raise ValueError(f"a text or list of more than {_LARGEST} characters or items")


def _bounded(function: Any) -> Any:
    """The filter, which may make no text or list that is too large for further filters."""

    @functools.wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if isinstance(result, str | list):
            _require_short(len(result))
        return result

    return bounded


def _join(value: Any, d: str = "", attribute: str | int | None = None) -> str:
    """Jinja2's filter, which tells the size before it makes the text."""
    items = [str(item if attribute is None else item[attribute]) for item in value]
    _require_short(sum(map(len, items)) + len(str(d)) * len(items))
    return str(d).join(items)


def _replace(text: Any, old: str, new: str, count: int = -1) -> str:
    """As `_join`."""
    before = str(text)
    _require_short(len(before) + len(new) * before.count(old))
    return before.replace(old, new, count)


@functools.cache
def _templates() -> _Expressions:
    return _Expressions()

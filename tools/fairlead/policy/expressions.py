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
    text = value.strip()
    if text.startswith("{{") and text.endswith("}}") and "{{" not in text[2:]:
        result = _expression(text[2:-2])(**names)
        if isinstance(result, Undefined):
            raise UndefinedError(f"{text} has no value: for none, write `else none`")
        return result
    return _template(value).render(names)


@functools.cache
def _expression(text: str) -> TemplateExpression:
    return _templates().compile_expression(text, undefined_to_none=False)


@functools.cache
def _template(text: str) -> Template:
    return _templates().from_string(text)


class _Expressions(ImmutableSandboxedEnvironment):
    """Expressions in a sandbox, because they also come out of a cluster's ConfigMaps. Each ends
    soon: there are no loops and macros, no powers, no repeated texts and no padding.
    """

    intercepted_binops = frozenset(["*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False)
        self.globals.clear()
        self.filters = {name: self.filters[name] for name in _FILTERS}

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
    *(nodes.For, nodes.Macro, nodes.CallBlock),
    *(nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends),
)
_METHODS = ("endswith", "get", "items", "keys", "lower", "split", "startswith", "upper", "values")


@functools.cache
def _templates() -> _Expressions:
    return _Expressions()

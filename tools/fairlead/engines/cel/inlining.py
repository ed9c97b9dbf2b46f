"""Writes parameters into the expressions of an admission policy, which then needs no object beside
it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_VARIABLE = "fairlead_parameters"
# The tokens of CEL in which the word `params` may be something else: strings, comments and members.
# A raw string may end with a backslash.
_TOKENS = re.compile(
    r"""
      [rR](?:\"{3}.*?\"{3} | '{3}.*?'{3} | "[^"\n]*" | '[^'\n]*')
    | \"{3}(?:\\.|[^\\])*?\"{3}
    | '{3}(?:\\.|[^\\])*?'{3}
    | "(?:\\.|[^"\\\n])*"
    | '(?:\\.|[^'\\\n])*'
    | //[^\n]*
    | \.\s*\??\s*[A-Za-z_]\w*
    | [A-Za-z_]\w*
    """,
    re.VERBOSE | re.DOTALL,
)


def inlined(spec: Mapping[str, Any], literal: str) -> dict[str, Any]:
    """The spec of a policy whose expressions read the parameters from its first variable, which has
    the value `literal`, and no longer as `params`.
    """
    rest: dict[str, Any] = _renamed(spec)
    variable = {"name": _VARIABLE, "expression": literal}
    return {**rest, "variables": [variable, *rest.get("variables", ())]}


def _renamed(part: Any) -> Any:
    if isinstance(part, list):
        return [_renamed(item) for item in part]
    if not isinstance(part, Mapping):
        return part
    return {
        key: _reading(value) if key in ("expression", "messageExpression") else _renamed(value)
        for key, value in part.items()
    }


def _reading(expression: str) -> str:
    return _TOKENS.sub(
        lambda token: f"variables.{_VARIABLE}" if token[0] == "params" else token[0], expression
    )

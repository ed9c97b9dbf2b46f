"""Writes trees as expressions in CEL; `expressions` does the reverse."""

from __future__ import annotations

import json
import re
from typing import Any

from fairlead.engines.cel.expressions import BINARY, STRING, Node

_LONGEST_LINE = 110
_LEVELS = {sign: level for level, signs in enumerate(BINARY, 1) for sign in signs}
_LEVELS |= {"?:": 0, "!": len(BINARY) + 1, "neg": len(BINARY) + 1}
"""How strongly operators bind their operands."""


def line(node: Node) -> str:
    """The expression of a tree in one line."""
    return _text(node)


def text(node: Node) -> str:
    """The expression of a tree. A long one has line breaks between its parts."""
    written = line(node)
    if len(written) <= _LONGEST_LINE:
        return written
    lines = [""]
    for part in re.findall(rf"(?:{STRING}|[^\s\"'])+", written):
        if lines[-1] and len(lines[-1]) + len(part) >= _LONGEST_LINE:
            lines.append("")
        lines[-1] += f" {part}" if lines[-1] else part
    return "\n".join(lines)


def _text(node: Node, level: int = 0) -> str:
    """The expression as an operand of an operator of this level."""
    own = _LEVELS.get(node.kind)
    if own is None:
        return _operand_text(node)
    args = node.args
    if node.kind == "?:":
        written = f"{_text(args[0], 1)} ? {_text(args[1], 1)} : {_text(args[2])}"
    elif len(args) == 1:
        written = ("!" if node.kind == "!" else "-") + _text(args[0], own)
    else:
        written = f"{_text(args[0], own)} {node.kind} {_text(args[1], own + 1)}"
    return f"({written})" if own < level else written


def _operand_text(node: Node) -> str:
    kind, value, args = node.kind, node.value, node.args
    if kind == "literal":
        return _literal_text(value[1])
    if kind in ("name", "opaque"):
        return str(value)
    if kind == "optional":
        return f"?{_text(args[0])}"
    if kind in (".", ".?"):
        return f"{_receiver(args[0])}{kind}{value}"
    if kind in ("[", "[?"):
        return f"{_receiver(args[0])}{kind}{_text(args[1])}]"
    if kind == "map":
        pairs = zip(args[::2], args[1::2], strict=True)
        return "{" + ", ".join(f"{_text(key)}: {_text(item)}" for key, item in pairs) + "}"
    if kind == "message":
        name, *fields = value
        values = zip(fields, args, strict=True)
        return f"{name}{{" + ", ".join(f"{field}: {_text(item)}" for field, item in values) + "}"
    if kind == "method":
        return f"{_receiver(args[0])}.{value}({', '.join(map(_text, args[1:]))})"
    listed = ", ".join(map(_text, args))
    return f"[{listed}]" if kind == "list" else f"{value}({listed})"


def _receiver(node: Node) -> str:
    negative = node.kind == "literal" and not isinstance(node.value[1], str | bool | None)
    return f"({_text(node)})" if negative else _text(node, len(BINARY) + 2)


def _literal_text(value: Any) -> str:
    written: str = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not isinstance(value, str) or "'" in value:
        return written
    return "'" + written[1:-1].replace('\\"', '"') + "'"

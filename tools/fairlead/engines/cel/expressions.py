"""Reads expressions in CEL as trees; `writing` does the reverse.

Source: the grammar in the definition of the Common Expression Language, with the optional parts
(`a.?b`, `a[?b]`, `[?a]`, `{?a: b}`) that API servers know.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

STRING = (
    r"[rRbB]{0,2}(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}"
    r"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
)
_TOKEN = re.compile(
    rf"(?P<space>(?:\s|//[^\n]*)+)|(?P<string>{STRING})"
    r"|(?P<number>0x[0-9a-fA-F]+[uU]?|(?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?[uU]?)"
    r"|(?P<name>[A-Za-z_]\w*|`[^`]+`)"
    r"|(?P<sign>\.\?|\[\?|\{\?|&&|\|\||[=!<>]=|[-+*/%!<>?:.,()\[\]{}])",
    re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_QUOTE = re.compile(r"^([rRbB]*)(\"{3}|'{3}|[\"']?)")
_CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
BINARY = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
"""The operators between two operands, from those that bind the least."""
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class Node:
    """A part of an expression.

    | kind | value | args |
    |---|---|---|
    | `literal` | its type, and the text, integer, float, boolean or None | |
    | `opaque` | bytes or an unsigned integer, as they are written | |
    | `name` | the name | |
    | `.` or `.?` | the field | the operand |
    | `[` or `[?` | | the operand and the index |
    | `call` | the function | the arguments |
    | `method` | the function | the operand and the arguments |
    | `list` | | the elements |
    | `map` | | keys and values in turn |
    | `message` | the type and the fields | their values |
    | `optional` | | an element, or a key or value, that may be missing |
    | `?:`, `!`, `neg`, or an operator such as `&&` | | the operands |
    """

    kind: str
    value: Any = None
    args: tuple[Node, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.value, self.args))

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """All names in it, also those that macros bind."""
        own = frozenset([self.value]) if self.kind == "name" else frozenset()
        return own.union(*(arg.names for arg in self.args))

    def having(self, args: tuple[Node, ...]) -> Node:
        """The node with other args."""
        return self if args == self.args else Node(self.kind, self.value, args)

    def walk(self) -> Iterator[Node]:
        """The node and all nodes below it."""
        yield self
        for arg in self.args:
            yield from arg.walk()


def literal(value: Any) -> Node:
    """A literal of a text, an integer, a float, a boolean or None."""
    return Node("literal", (type(value).__name__, value))


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Node:
    """The tree of an expression. Raises ValueError."""
    parser = _Parser([*_tokens(text)])
    node = parser.expression()
    parser.expect("")
    return node


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    end = 0
    while end < len(text):
        match = _TOKEN.match(text, end)
        if match is None:
            raise ValueError(f"`{text[end : end + 20]}` is not CEL")
        end = match.end()
        if match.lastgroup != "space":
            yield str(match.lastgroup), match.group()
    yield "sign", ""


class _Parser:
    """A recursive descent; each method reads what its name says."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._next = 0

    def expect(self, sign: str) -> None:
        if not self._take(sign):
            self._refuse(f"`{sign}` is missing" if sign else "an operator is missing")

    def expression(self) -> Node:
        condition = self._binary(1)
        if not self._take("?"):
            return condition
        chosen = self._binary(1)
        self.expect(":")
        return Node("?:", None, (condition, chosen, self.expression()))

    def _binary(self, level: int) -> Node:
        if level > len(BINARY):
            return self._unary()
        node = self._binary(level + 1)
        while self._text in BINARY[level - 1]:
            sign = self._pop()
            node = Node(sign, None, (node, self._binary(level + 1)))
        return node

    def _unary(self) -> Node:
        if self._take("!"):
            return Node("!", None, (self._unary(),))
        if self._take("-"):
            operand = self._unary()
            is_number = operand.kind == "literal" and operand.value[0] in ("int", "float")
            return literal(-operand.value[1]) if is_number else Node("neg", None, (operand,))
        return self._member(self._primary())

    def _member(self, node: Node) -> Node:
        while True:
            if (sign := self._text) in (".", ".?"):
                self._pop()
                field = self._name()
                if sign == "." and self._take("("):
                    node = Node("method", field, (node, *self._listed(")")))
                else:
                    node = Node(sign, field, (node,))
            elif sign in ("[", "[?"):
                self._pop()
                node = Node(sign, None, (node, self.expression()))
                self.expect("]")
            elif sign == "{" and (name := _dotted(node)):
                self._pop()
                node = self._message(name)
            else:
                return node

    def _message(self, name: str) -> Node:
        fields, values = [], []
        while not self._take("}"):
            fields.append(self._name())
            self.expect(":")
            values.append(self.expression())
            if not self._take(","):
                self.expect("}")
                break
        return Node("message", (name, *fields), tuple(values))

    def _primary(self) -> Node:
        kind, text = self._tokens[self._next]
        if kind in ("string", "number"):
            self._pop()
            return _literal(text)
        if kind == "name":
            self._pop()
            if text in _WORDS:
                return literal(_WORDS[text])
            return Node("call", text, self._listed(")")) if self._take("(") else Node("name", text)
        if self._take("("):
            node = self.expression()
            self.expect(")")
            return node
        if text in ("[", "[?"):
            return Node("list", None, self._listed("]", optional=self._pop() == "[?"))
        if text in ("{", "{?"):
            return Node("map", None, self._pairs(optional=self._pop() == "{?"))
        problem = f"`{text}` stands where a value is expected" if text else "it ends too early"
        return self._refuse(problem)

    def _listed(self, end: str, *, optional: bool = False) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while optional or not self._take(end):
            node = self.expression()
            nodes.append(Node("optional", None, (node,)) if optional else node)
            if not self._take(","):
                self.expect(end)
                break
            optional = self._take("?")
        return tuple(nodes)

    def _pairs(self, *, optional: bool) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while optional or not self._take("}"):
            key = self.expression()
            self.expect(":")
            nodes += [Node("optional", None, (key,)) if optional else key, self.expression()]
            if not self._take(","):
                self.expect("}")
                break
            optional = self._take("?")
        return tuple(nodes)

    def _name(self) -> str:
        kind, text = self._tokens[self._next]
        if kind != "name":
            self._refuse(f"`{text}` stands where a name is expected")
        return self._pop()

    @property
    def _text(self) -> str:
        return self._tokens[self._next][1]

    def _pop(self) -> str:
        self._next += 1
        return self._tokens[self._next - 1][1]

    def _take(self, sign: str) -> bool:
        taken = self._tokens[self._next] == ("sign", sign)
        self._next += taken
        return taken

    def _refuse(self, problem: str) -> NoReturn:
        before = " ".join(text for _, text in self._tokens[max(0, self._next - 6) : self._next])
        raise ValueError(f"{problem} after `{before}`" if before else problem)


def _dotted(node: Node) -> str:
    """The name of a message's type; empty if the node is no such name."""
    if node.kind == "name":
        return str(node.value)
    outer = _dotted(node.args[0]) if node.kind == "." else ""
    return f"{outer}.{node.value}" if outer else ""


def _literal(text: str) -> Node:
    prefix, quote = _QUOTE.findall(text)[0]
    if not quote:
        if text[-1] in "uU" or text[:2] == "0x":
            return Node("opaque", text) if text[-1] in "uU" else literal(int(text, 16))
        return literal(float(text) if set(text) & set(".eE") else int(text))
    if "b" in prefix.lower():
        return Node("opaque", text)
    content = text[len(prefix) + len(quote) : -len(quote)]
    return literal(content if prefix else _ESCAPE.sub(_unescaped, content))


def _unescaped(match: re.Match[str]) -> str:
    *codes, octal, other = match.groups()
    code = next(filter(None, codes), None)
    if code or octal:
        return chr(int(code, 16) if code else int(octal, 8))
    return _CONTROL.get(other, other)

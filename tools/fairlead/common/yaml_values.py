"""The values of YAML as Kubernetes reads it: kubectl and API servers read YAML by the Go package
sigs.k8s.io/yaml, which differs from YAML 1.1 and from YAML 1.2, and then as JSON.

Sources: sigs.k8s.io/yaml 1.6, go.yaml.in/yaml/v2 2.4; `kubectl create --dry-run`, which a test
compares this with.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, cast

import yaml
from yaml.composer import Composer
from yaml.events import AliasEvent, ScalarEvent

Doubt = Callable[[yaml.Node, str], None]
"""Gets a key that people may mean otherwise than kubectl reads it, and a sentence about it. It may
raise yaml.MarkedYAMLError.
"""

_TAG = "tag:yaml.org,2002:"
_TEXT, _MERGE = f"{_TAG}str", f"{_TAG}merge"
_RESOLVED = {f"{_TAG}{name}" for name in ("bool", "int", "float", "null", "timestamp")}
_WORDS: dict[str, Any] = {
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_WHOLE = [
    (re.compile(pattern, re.ASCII), base)
    for pattern, base in (
        (r"([-+]?)(0|[1-9][0-9]*)", 10),
        (r"([-+]?)0[xX]([0-9a-fA-F]+)", 16),
        (r"([-+]?)0[oO]?([0-7]+)", 8),
        (r"([-+]?)0[bB]([01]+)", 2),
        (r"0b([-+])([01]+)", 2),
    )
]
_DECIMAL = re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?", re.A)
_BETWEEN_DIGITS = re.compile(r"(?<=\d)_(?=\d)", re.A)
_TIMESTAMP = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}(?:[Tt]\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d+)?(?:Z|[-+]\d\d:\d\d)"
    r"| \d{1,2}:\d{1,2}:\d{1,2}(?:\.\d+)?)?",
    re.A,
)
_ESCAPE = re.compile(r"\\.", re.DOTALL)
# How many values may come from aliases, by go-yaml: a share of all, which falls as they get more.
_FEW, _MANY = 400_000, 4_000_000


class Alias(yaml.Node):
    """The place of an alias, and the node that it means."""

    id = "alias"

    def __init__(self, target: yaml.Node, mark: Any) -> None:
        super().__init__("", None, mark, mark)
        self.target = target


def target(node: yaml.Node | None) -> yaml.Node | None:
    """The node itself, or the one that an alias means."""
    return node.target if isinstance(node, Alias) else node


class GoComposer(Composer):
    """Composes nodes as go-yaml does: an anchor may be used again, and an alias means the latest
    one. A scalar has the tag "" if its text decides what it is.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose_node(self, parent: yaml.Node | None, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[attr-defined]
        if isinstance(event, AliasEvent):
            return Alias(cast(yaml.Node, super().compose_node(parent, index)), event.start_mark)
        self.anchors.pop(event.anchor, None)
        if (
            isinstance(event, ScalarEvent)
            and isinstance(parent, yaml.CollectionNode)
            and parent.flow_style
        ):
            self._refuse_question_mark(event)
        return super().compose_node(parent, index)

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        event: Any = self.get_event()  # type: ignore[attr-defined]
        self._refuse_slash(event)
        tag = event.tag or ("" if event.implicit[0] else _TEXT)
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark, event.style)
        if anchor is not None:
            self.anchors[anchor] = node
        return node

    def _refuse_question_mark(self, event: Any) -> None:
        """Raises yaml.MarkedYAMLError for a text without quotes that go-yaml ends at its ?."""
        if not event.style and "?" in event.value:
            problem = f"found ? in {event.value!r}: within [...] or {{...}}, quote a text with ?"
            raise yaml.MarkedYAMLError(None, None, problem, event.start_mark)

    def _refuse_slash(self, event: Any) -> None:
        r"""Raises yaml.MarkedYAMLError for the escape \/, which go-yaml does not have."""
        if event.style != '"' or "/" not in event.value:
            return
        start, end = event.start_mark, event.end_mark
        if r"\/" in _ESCAPE.findall(self._text, start.index, end.index):
            raise yaml.MarkedYAMLError(None, None, r"found the unknown escape \/", start)

    def resolve(self, _kind: type[yaml.Node], _value: str | None, _implicit: Any) -> str:
        """The tag of a mapping or a list, which does not count."""
        return ""

    def descend_resolver(self, _parent: yaml.Node | None, _index: Any) -> None:
        """No tag depends on where a node stands."""

    def ascend_resolver(self) -> None:
        """See descend_resolver."""


def value(node: yaml.Node, doubt: Doubt) -> Any:
    """The value of a document's root node, of what JSON has.

    Of a key that a mapping has twice, the last one counts. A number or a truth value that is a key
    becomes a text. `doubt` is told of both. Raises yaml.MarkedYAMLError for what kubectl does not
    read.
    """
    values = _Values(doubt)
    made = values.of(node)
    if values.not_finite and not _is_finite(made):
        text = values.not_finite.value
        raise _error(
            f"{text} is a number that JSON does not have: quote it, or write another number",
            values.not_finite,
        )
    return made


class _Values:
    """Makes the values of one document."""

    def __init__(self, doubt: Doubt) -> None:
        self._doubt = doubt
        self._open: set[int] = set()  # the targets of the aliases whose values are being made
        self._count = self._from_aliases = 0
        self.not_finite: yaml.ScalarNode | None = None
        """A number that JSON does not have."""

    def of(self, node: yaml.Node) -> Any:
        self._count += 1
        self._from_aliases += bool(self._open)
        if self._from_aliases > 100 and self._count > 1000 and self._too_many():
            raise _error("holds too many values that come from aliases", node)
        if isinstance(node, yaml.ScalarNode):
            return self._of_scalar(node)
        if isinstance(node, Alias):
            return self._through(node, self.of)
        if isinstance(node, yaml.SequenceNode):
            return [self.of(child) for child in node.value]
        mapping: dict[str, Any] = {}
        self._fill(mapping, node, {})
        return mapping

    def _of_scalar(self, node: yaml.ScalarNode) -> Any:
        number = _scalar(node)
        if not isinstance(number, float):
            return number
        if not math.isfinite(number):
            self.not_finite = node
        # Go writes it without a fraction, and an API server reads it as a whole number.
        return int(number) if number.is_integer() and abs(number) < 2**63 else number

    def _too_many(self) -> bool:
        share = min(1.0, max(0.0, (self._count - _FEW) / (_MANY - _FEW)))
        return self._from_aliases / self._count > 0.99 - 0.89 * share

    def _through(self, alias: Alias, read: Callable[[yaml.Node], Any]) -> Any:
        if id(alias.target) in self._open:
            raise _error("an alias stands in the value that it means", alias)
        self._open.add(id(alias.target))
        try:
            return read(alias.target)
        finally:
            self._open.discard(id(alias.target))

    def _fill(self, mapping: dict[str, Any], node: yaml.Node, own: dict[str, bool]) -> None:
        """Set the keys of the node. What `<<` merges counts at the place where it stands: it takes
        the place of keys above it, and gives way to keys below it. `own` has the keys so far that
        stand in the node itself, and whether they are text there.
        """
        for key_node, value_node in node.value:
            if _merges(key_node):
                for merged in _merged(value_node):
                    if isinstance(merged, Alias):
                        self._through(merged, lambda source: self._fill(mapping, source, {}))
                    else:
                        self._fill(mapping, merged, {})
                continue
            key, is_text = _key(target(key_node))
            if not is_text:
                self._doubt(key_node, f"the key {key_node.value} is read as {key!r}: quote it")
            if own.get(key, is_text) != is_text:
                raise _error(f"two keys are read as {key!r}, and kubectl takes either", key_node)
            if key in own:
                sentence = f"the key {key!r} stands here twice (kubectl takes the last): remove one"
                self._doubt(key_node, sentence)
            own[key] = is_text
            mapping[key] = self.of(value_node)


def _merges(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value == "<<" and key.tag in ("", _MERGE)


def _merged(node: yaml.Node) -> Iterator[yaml.Node]:
    """The mappings that `<<` merges, those first that count least. Raises yaml.MarkedYAMLError."""
    is_list = isinstance(node, yaml.SequenceNode)
    for source in reversed(node.value) if is_list else [node]:
        if not isinstance(target(source), yaml.MappingNode):
            raise _error("<< merges a mapping or a list of mappings", source)
        yield source


def _key(node: yaml.Node | None) -> tuple[str, bool]:
    """A key as JSON has it, and whether it is text in YAML, too. Raises yaml.MarkedYAMLError."""
    if not isinstance(node, yaml.ScalarNode):
        raise _error("a key is a mapping or a list: write text", node)
    key = _scalar(node)
    if isinstance(key, str):
        return key, True
    if key is None or (isinstance(key, int) and key >= 2**63):
        raise _error(f"the key {node.value!r} is not text: quote it", node)
    if isinstance(key, bool):
        return str(key).lower(), False
    return _short(key) if isinstance(key, float) else str(key), False


def _short(number: float) -> str:
    """A number as Go's %g of 32 bits, which is how it becomes a key."""
    try:
        (single,) = struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        single = math.copysign(math.inf, number)
    if not math.isfinite(single):
        return ".nan" if math.isnan(single) else ".inf" if single > 0 else "-.inf"
    texts = (f"{single:.{digits}e}" for digits in range(9))
    text = next(text for text in texts if struct.pack("f", float(text)) == struct.pack("f", single))
    return f"{Decimal(text):f}" if -4 <= int(text.partition("e")[2]) < 6 else text


def _is_finite(made: Any) -> bool:
    if isinstance(made, dict | list):
        return all(map(_is_finite, made.values() if isinstance(made, dict) else made))
    return not isinstance(made, float) or math.isfinite(made)


def _scalar(node: yaml.ScalarNode) -> Any:
    text, tag = node.value, node.tag
    if not tag:
        return _plain(text)
    if tag == f"{_TAG}binary":
        try:
            content = text.replace("\n", "")  # Go skips the ends of lines, and no other space
            return base64.b64decode(content, validate=True).decode("utf-8", "replace")
        except binascii.Error as error:
            raise _error("!!binary is not base64", node) from error
    if tag not in _RESOLVED:
        return text
    kind = tag.removeprefix(_TAG)
    plain = _plain(text)
    if kind == "float" and type(plain) is int:
        return float(plain)
    if kind == "timestamp":
        fits = bool(_TIMESTAMP.fullmatch(text))
    else:
        fits = type(plain).__name__ == {"null": "NoneType"}.get(kind, kind)
    if not fits:
        raise _error(f"{text!r} is not a !!{kind}", node)
    return plain


def _plain(text: str) -> Any:
    """The value of a text without quotes. Times, dates and `=` are text."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in ".+-0123456789":
        return text
    digits = _BETWEEN_DIGITS.sub("", text) if text[0] == "." else text.replace("_", "")
    for pattern, base in _WHOLE:
        if match := pattern.fullmatch(digits):
            number = int("".join(match.groups()), base)
            if -(2**63) <= number < (2**63 if digits[0] in "+-" else 2**64):
                return number
    decimal = _decimal(digits)
    return text if isinstance(decimal, str) else decimal


def _decimal(text: str) -> float | str:
    if not _DECIMAL.fullmatch(text):
        return text
    number = float(text)
    return text if math.isinf(number) else number


def _error(problem: str, node: yaml.Node | None) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(None, None, problem, node.start_mark if node else None)

"""Reads YAML and JSON that people wrote. Errors name the file and the line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import BaseModel, ValidationError
from yaml._yaml import CParser
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.scanner import Scanner

from fairlead.common import mistakes, yaml_values
from fairlead.common.errors import InputError
from fairlead.common.mistakes import Mistake

Model = TypeVar("Model", bound=BaseModel)
Location = Sequence[str | int]

STDIN = Path("-")
"""As a file: standard input. Messages call it `stdin`."""
_HALF = re.compile("[\ud800-\udfff]")
_ONLY_OF_LIBYAML = ("unknown escape", "found unexpected ':'")


@dataclass(frozen=True)
class Document:
    """One YAML document: its value, and the line of each part.

    `above` is the number of lines above the text that `node` is of. `remarks` are sentences about
    what kubectl reads and a reader may not expect.
    """

    path: Path
    value: Any
    node: yaml.Node | None
    above: int = 0
    remarks: tuple[str, ...] = ()

    def line(self, location: Location) -> int | None:
        """The line (from 1) of the part at `location`, or of the deepest part above it that exists.

        `location` holds keys and indexes, from the top.
        """
        line = None if self.node is None else self.above + self.node.start_mark.line + 1
        for mark, _ in _steps(self.node, location):
            line = self.above + mark.line + 1
        return line

    def part(self, location: Location) -> yaml.Node | None:
        """The YAML node at `location`; None if there is none, or the document comes from JSON."""
        nodes = [self.node, *(node for _, node in _steps(self.node, location))]
        return nodes[-1] if len(nodes) > len(location) else None

    def at(self, location: Location, value: Any) -> Document:
        """The part at `location` as a document, with the value `value`."""
        return replace(self, value=value, node=self.part(location))

    def error(self, problem: str, at: Location = ()) -> InputError:
        """The error of a document with this problem `at` a place."""
        return InputError(shown(self.path), problem, line=self.line(at))

    def parse(self, model: type[Model]) -> Model:
        """The document as `model`. Raises InputError with every mistake and its line."""
        self.require_mapping()
        try:
            return model.model_validate(self.value)
        except ValidationError as error:
            raise self.mistaken(mistakes.of(error, model, self.value)) from error

    def require_mapping(self) -> None:
        """Raises InputError if the document is no mapping."""
        if not isinstance(self.value, dict):
            raise self.error(f"a mapping is expected, not {_kind(self.value)}")

    def mistaken(self, found: Iterable[Mistake]) -> InputError:
        """The error with these mistakes, at least one, in the order of their lines."""
        problems = [(self.line(mistake.location), mistake.text) for mistake in found]
        (line, text), *further = sorted(problems, key=lambda problem: problem[0] or 0)
        return InputError(self.path, text, line=line, further=further)


def _steps(node: yaml.Node | None, location: Location) -> Iterator[tuple[yaml.Mark, yaml.Node]]:
    """For each step of `location` that exists: the mark of its key or item, and its node."""
    for step in location:
        node = yaml_values.target(node)
        children: list[tuple[yaml.Mark, yaml.Node]] = []
        if isinstance(node, yaml.MappingNode):
            children = [(k.start_mark, v) for k, v in node.value if k.value == str(step)]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            children = [(item.start_mark, item) for item in node.value[step : step + 1]]
        if not children:
            return
        yield children[-1]
        node = children[-1][1]


class _FastLoader(yaml_values.GoComposer, CParser):
    """Six times as fast as PyYAML's own parser. libyaml's composer is not used: it recurses in C,
    and a deeply nested text would end the process.
    """

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        yaml_values.GoComposer.__init__(self, text)


class _ExactLoader(Reader, Scanner, Parser, yaml_values.GoComposer):
    """Names the line of an error, where libyaml often names the next one, and reads what go-yaml
    reads and libyaml does not: the escape `\\'`, and a colon at the end of a value in `{a: b:}`.
    """

    ESCAPE_REPLACEMENTS = {**Scanner.ESCAPE_REPLACEMENTS, "'": "'"}  # type: ignore[misc]  # noqa: RUF012

    def __init__(self, text: str) -> None:
        try:
            Reader.__init__(self, text)
        except ReaderError as error:
            problem = f"the character U+{error.character:04X} is not allowed"
            line = text.count("\n", 0, error.position)
            mark = yaml.Mark("", error.position, line, 0, None, 0)
            raise yaml.MarkedYAMLError(None, None, problem, mark) from None
        Scanner.__init__(self)
        Parser.__init__(self)
        yaml_values.GoComposer.__init__(self, text)

    def scan_plain(self) -> Any:
        """As go-yaml, takes a colon that a bracket or a comma follows for a part of the value."""
        token: Any = super().scan_plain()
        ends = self.index == token.end_mark.index and self.peek() == ":"
        if self.flow_level and ends and self.peek(1) in ",[]{}":
            self.forward()
            token.value += ":"
            token.end_mark = self.get_mark()
        return token

    def scan_plain_spaces(self, indent: int, start_mark: yaml.Mark) -> Any:
        """As libyaml and go-yaml, takes tabs for spaces, but none that would indent."""
        first = self.line
        spaces: Any = super().scan_plain_spaces(indent, start_mark)
        while self.peek() == "\t":
            line = self.line
            if line > first and self.column < indent:
                problem = "found a tab character that violates indentation"
                raise yaml.MarkedYAMLError(None, None, problem, self.get_mark())
            self.forward()
            more: Any = super().scan_plain_spaces(indent, start_mark)
            if self.line > line:  # what is before a line break is not part of the value
                spaces = more
            elif line == first:
                spaces = [*spaces, "\t", *more]
        return spaces

    def scan_to_next_token(self) -> None:
        """As libyaml and go-yaml, skips tabs that indent nothing."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        """As libyaml and go-yaml, refuses the escapes of halves of characters."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if _HALF.search(event.value):
            problem = "found an escape of half a character"
            raise yaml.MarkedYAMLError(None, None, problem, event.start_mark)
        return super().compose_scalar_node(anchor)


def shown(path: Path) -> Path:
    """The file as messages name it."""
    return Path("stdin") if path == STDIN else path


def content(path: Path) -> bytes:
    """What a file holds, or standard input for STDIN. Raises InputError if it cannot be read."""
    with _readable(path):
        return sys.stdin.buffer.read() if path == STDIN else path.read_bytes()


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            shown(path),
            f"cannot be read ({error.strerror}): name a file that exists and is readable",
        ) from error


def read_text(path: Path, *, may_be_blank: bool = False) -> str:
    """The file's text, or that of standard input for STDIN. Raises InputError if it cannot be read
    or is not UTF-8, and if it is empty, unless it `may_be_blank`.
    """
    try:
        with _readable(path):
            text = sys.stdin.buffer.read().decode() if path == STDIN else path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            shown(path), f"is not UTF-8 text (byte {error.start}): save it as such"
        ) from error
    if not may_be_blank and not text.strip():
        raise InputError(shown(path), "is empty: remove it, or write what it is for")
    return text


def read_yaml(path: Path) -> list[Document]:
    """The documents of a YAML (or JSON) file that are not empty. Raises InputError with line."""
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: Path, *, may_be_blank: bool = False) -> list[Document]:
    """The documents of a YAML (or JSON) text that are not empty; messages name it by `path`. A key
    that is not text, or that a mapping has twice, is an error, and so is a text without any
    document, unless it `may_be_blank`.
    """
    with _errors(path):
        documents = [
            Document(path, yaml_values.value(node, _refuse), node) for node in _nodes(text)
        ]
    documents = [document for document in documents if document.value is not None]
    if not documents and not may_be_blank:
        raise InputError(path, "holds no document, only comments: write what it is for")
    return documents


def first_document(text: str, path: Path, *, above: int) -> Document | None:
    """The first document of a text, as kubectl reads it: None if it is empty. Remarks name
    keys that a mapping has twice, and those that are not text. `above` is the number of lines
    above the text in its file. Raises InputError with the line.
    """
    remarks: list[str] = []

    def remark(key: yaml.Node, sentence: str) -> None:
        remarks.append(f"line {above + key.start_mark.line + 1}: {sentence}")

    with _errors(path, above, text.count("\n")):
        nodes = _nodes(text)
        node = next(nodes, None)
        value = None if node is None else yaml_values.value(node, remark)
    if node is None or value is None:
        return None
    with suppress(yaml.YAMLError):
        if further := next(nodes, None):
            remark(
                further, "kubectl reads nothing from here on: begin a document with a line of ---"
            )
    return Document(path, value, node, above, tuple(remarks))


def yaml_value(text: str) -> Any:
    """The value of a text with one YAML document; None if it is empty. Raises yaml.YAMLError."""
    node = next(_nodes(text), None)
    return None if node is None else yaml_values.value(node, _refuse)


def _refuse(key: yaml.Node, sentence: str) -> None:
    raise yaml.MarkedYAMLError(None, None, sentence, key.start_mark)


def _nodes(text: str) -> Iterator[yaml.Node]:
    """The root node of each document. Raises yaml.YAMLError with the exact line."""
    loader, count = _FastLoader(text), 0
    try:
        while loader.check_node():
            yield cast(yaml.Node, loader.get_node())
            count += 1
    except yaml.YAMLError as error:
        exact = _ExactLoader(text)
        nodes = []
        while exact.check_node():
            nodes.append(cast(yaml.Node, exact.get_node()))
        if not any(text in str(error) for text in _ONLY_OF_LIBYAML):
            raise
        yield from nodes[count:]
    finally:
        loader.dispose()


@contextmanager
def _errors(path: Path, above: int = 0, lines: int | None = None) -> Iterator[None]:
    """Turns errors of YAML into InputErrors. The text has `lines` lines, if they are known."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        context = f"{error.context}: " if error.context else ""
        raise InputError(
            path,
            f"is not valid YAML: {context}{error.problem}",
            line=above + min(mark.line + 1, lines or mark.line + 1) if mark else None,
        ) from error
    except RecursionError as error:
        raise InputError(path, "is not valid YAML: nested too deeply") from error
    except UnicodeEncodeError as error:
        raise InputError(path, "is not UTF-8 text: save it as such") from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        problem = " ".join(str(error).split())[:200]
        raise InputError(path, f"is not valid YAML: {problem}") from error


def read_json(path: Path) -> Any:
    """The value of a JSON file. Raises InputError with the line."""
    return parse_json(read_text(path), path)


def parse_json(text: str, path: Path) -> Any:
    """The value of a JSON text; messages name it by `path`. Raises InputError with the line."""
    try:
        return json.loads(text, object_pairs_hook=_each_key_once)
    except _Twice as error:
        raise InputError(
            path, f"is not valid JSON: the key {str(error)!r} stands there twice"
        ) from error
    except json.JSONDecodeError as error:
        raise InputError(path, f"is not valid JSON: {error.msg}", line=error.lineno) from error
    except ValueError as error:  # a number of thousands of digits
        raise InputError(path, f"is not valid JSON: {error}") from error
    except RecursionError as error:
        raise InputError(path, "is not valid JSON: nested too deeply") from error


class _Twice(Exception):
    """A key that a JSON object has twice."""


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, as API servers accept it. Raises _Twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Twice(next(key for key in keys if keys.count(key) > 1))
    return value


def _kind(value: object) -> str:
    return {list: "a list", str: "text", bool: "a truth value", type(None): "nothing"}.get(
        type(value), "a number"
    )

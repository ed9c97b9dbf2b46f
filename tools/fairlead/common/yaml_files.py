"""Reads YAML and JSON that people wrote. Errors name the file and the line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml._yaml import CParser
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from fairlead.common import mistakes
from fairlead.common.errors import InputError

Model = TypeVar("Model", bound=BaseModel)
Location = Sequence[str | int]

STDIN = Path("-")
"""As a file: standard input. Messages call it `stdin`."""


@dataclass(frozen=True)
class Document:
    """One YAML document: its value, and the line of each part."""

    path: Path
    value: Any
    node: yaml.Node | None

    def line(self, location: Location) -> int | None:
        """The line (from 1) of the part at `location`, or of the deepest part above it that exists.

        `location` holds keys and indexes, from the top.
        """
        node, line = self.node, None
        if node is not None:
            line = node.start_mark.line + 1
        for step in location:
            child: yaml.Node | None = None
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if key.value == str(step):
                        line, child = key.start_mark.line + 1, value
            elif (
                isinstance(node, yaml.SequenceNode)
                and isinstance(step, int)
                and step < len(node.value)
            ):
                child = node.value[step]
                line = child.start_mark.line + 1
            if child is None:
                break
            node = child
        return line

    def part(self, location: Location) -> yaml.Node | None:
        """The YAML node at `location`; None if there is none, or the document comes from JSON."""
        node = self.node
        for step in location:
            if isinstance(node, yaml.MappingNode):
                node = next((value for key, value in node.value if key.value == str(step)), None)
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                node = node.value[step] if step < len(node.value) else None
            else:
                return None
        return node

    def parse(self, model: type[Model]) -> Model:
        """The document as `model`. Raises InputError with every mistake and its line."""
        if not isinstance(self.value, dict):
            raise InputError(
                self.path, f"a mapping is expected, not {_kind(self.value)}", line=self.line(())
            )
        try:
            return model.model_validate(self.value)
        except ValidationError as error:
            problems = sorted(
                (
                    (self.line(mistake.location), mistake.text)
                    for mistake in mistakes.of(error, model, self.value)
                ),
                key=lambda problem: problem[0] or 0,
            )
            (line, text), *further = problems
            raise InputError(self.path, text, line=line, further=further) from error


class _Constructor(SafeConstructor):
    """YAML as Kubernetes reads it: duplicate keys are errors, and so are keys that are not text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if key.value in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands here twice", key.start_mark
                )
            keys.add(key.value)
        return super().construct_mapping(node, deep)


class _FastLoader(Composer, CParser, _Constructor, Resolver):
    """Six times as fast as PyYAML's own parser. libyaml's composer is not used: it recurses in C,
    and a deeply nested text would end the process.
    """

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        _Constructor.__init__(self)
        Resolver.__init__(self)


class _ExactLoader(_Constructor, yaml.SafeLoader):
    """Names the line of an error, where libyaml often names the next one."""


# A timestamp stays text, because everything here becomes JSON, which has no timestamps.
_FastLoader.yaml_implicit_resolvers = _ExactLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def shown(path: Path) -> Path:
    """The file as messages name it."""
    return Path("stdin") if path == STDIN else path


def read_text(path: Path, *, may_be_blank: bool = False) -> str:
    """The file's text, or that of standard input for STDIN. Raises InputError if it cannot be read
    or is not UTF-8, and if it is empty, unless it `may_be_blank`.
    """
    try:
        text = sys.stdin.buffer.read().decode() if path == STDIN else path.read_text("utf-8")
    except OSError as error:
        raise InputError(
            shown(path),
            f"cannot be read ({error.strerror}): name a file that exists and is readable",
        ) from error
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


def parse_yaml(
    text: str, path: Path, *, select: Callable[[yaml.Node], bool] | None = None
) -> list[Document]:
    """The documents of a YAML (or JSON) text that are not empty; messages name it by `path`.

    With `select`, only the documents for which it is true are read, and there may be none.
    """
    try:
        try:
            return _parse(_FastLoader(text), path, select)
        except yaml.YAMLError:
            return _parse(_ExactLoader(text), path, select)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InputError(
            path, f"is not valid YAML: {error.problem}", line=mark.line + 1 if mark else None
        ) from error
    except RecursionError as error:
        raise InputError(path, "is not valid YAML: nested too deeply") from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        problem = " ".join(str(error).split())[:200]
        raise InputError(path, f"is not valid YAML: {problem}") from error


def yaml_value(text: str) -> Any:
    """The value of a text with one YAML document; None if it is empty. Raises yaml.YAMLError."""
    loader = _FastLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _parse(
    loader: _FastLoader | _ExactLoader, path: Path, select: Callable[[yaml.Node], bool] | None
) -> list[Document]:
    documents = []
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None or node.tag == "tag:yaml.org,2002:null":
                continue
            if select is None or select(node):
                documents.append(Document(path, loader.construct_document(node), node))
    finally:
        loader.dispose()
    if select is None and not documents:
        raise InputError(path, "holds no document, only comments: write what it is for")
    return documents


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

"""Reads YAML and JSON that people wrote. Errors name the file and the line."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from fairlead.common import mistakes
from fairlead.common.errors import InputError

Model = TypeVar("Model", bound=BaseModel)
Location = Sequence[str | int]


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


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: duplicate keys are errors, and so are keys that are not text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands here twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


# A timestamp stays text, because everything here becomes JSON, which has no timestamps.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_text(path: Path) -> str:
    """The file's text. Raises InputError if it cannot be read, is not UTF-8, or is empty."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            path, f"cannot be read ({error.strerror}): name a file that exists and is readable"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            path, f"is not UTF-8 text (byte {error.start}): save it as such"
        ) from error
    if not text.strip():
        raise InputError(path, "is empty: remove it, or write what it is for")
    return text


def read_yaml(path: Path) -> list[Document]:
    """The documents of a YAML (or JSON) file that are not empty. Raises InputError with line."""
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: Path) -> list[Document]:
    """The same for a text; messages name it by `path`."""
    documents = []
    try:
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                value = loader.construct_document(node)
                if value is not None:
                    documents.append(Document(path, value, node))
        finally:
            loader.dispose()
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
    if not documents:
        raise InputError(path, "holds no document, only comments: write what it is for")
    return documents


def read_json(path: Path) -> Any:
    """The value of a JSON file. Raises InputError with the line."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(path, f"is not valid JSON: {error.msg}", line=error.lineno) from error
    except ValueError as error:  # a number of thousands of digits
        raise InputError(path, f"is not valid JSON: {error}") from error
    except RecursionError as error:
        raise InputError(path, "is not valid JSON: nested too deeply") from error


def _kind(value: object) -> str:
    return {list: "a list", str: "text", bool: "a truth value", type(None): "nothing"}.get(
        type(value), "a number"
    )

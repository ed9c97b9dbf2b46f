"""Takes a text apart into its documents as kubectl does: at lines of `---`, or as a stream of JSON
objects.

Source: k8s.io/apimachinery/pkg/util/yaml, YAMLOrJSONDecoder; `kubectl annotate --local`, which a
test compares this with.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import yaml

from fairlead.common import json_numbers, yaml_files
from fairlead.common.errors import InputError
from fairlead.common.yaml_files import Document

_SEPARATOR = "---"
_SPACE = re.compile(r"\s*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*')
"""A text or a number in JSON."""
_GUESSED = 4096
"""So far kubectl looks into a text for the brace of a JSON object."""


def documents(raw: bytes, path: Path) -> Iterator[Document]:
    """The documents of a file's content that are not empty, in their order; messages name it by
    `path`.

    Raises InputError with the line at the first document that kubectl does not read. Those before
    it have been given by then.
    """
    text = _decoded(raw)
    start, refusal = 0, None
    if text[:_GUESSED].lstrip().startswith("{"):
        start, refusal = yield from _json_documents(text, path)
    try:
        yield from _yaml_documents(text[start:], path, above=text.count("\n", 0, start))
    except InputError as error:
        raise refusal or error from None


def _decoded(raw: bytes) -> str:
    """The text, by its byte order mark. Without one, what is not UTF-8 becomes U+FFFD; with that
    of UTF-8, it stays an error of the document that it stands in.
    """
    if raw.startswith(codecs.BOM_UTF8):
        return raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace")
    return raw.decode("utf-8", "replace")


def _json_documents(
    text: str, path: Path
) -> Generator[Document, None, tuple[int, InputError | None]]:
    """The JSON objects at the start; returns where YAML begins, and why it is not JSON. Raises
    InputError for a stream of several objects that is not JSON to its end, and for an object with
    a number that Go has no room for.
    """
    position = count = 0
    while position < len(text):
        blank = _SPACE.match(text, position)
        start = blank.end() if blank else position
        if start == len(text):
            return start, None
        repeated: list[str] = []
        too_large: list[str] = []
        try:
            value, position = _decoder(repeated, too_large).raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            refusal = _not_json(error, text, path)
            if count > 1:
                raise refusal from None
            line_end = text.find("\n", position, start)
            return (start if line_end < 0 else line_end + 1), refusal
        count += 1
        if too_large:
            tokens = _TOKEN.finditer(text, start)
            number = next(token for token in tokens if token[0] == too_large[0])
            raise InputError(
                path,
                f"{number[0][:40]} is too large for a number: write a smaller one, or quote it",
                line=text.count("\n", 0, number.start()) + 1,
            )
        if value is not None:  # kubectl goes on after null, as jq prints it
            yield _json_document(
                value, text[start:position], path, text.count("\n", 0, start), repeated
            )
    return position, None


def _decoder(repeated: list[str], too_large: list[str]) -> json.JSONDecoder:
    """Reads JSON as Go does. The keys that an object has twice are added to `repeated`, and numbers
    of more than 64 bits of floating point to `too_large`.
    """

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            keys = [key for key, _ in pairs]
            repeated.extend(key for key in value if keys.count(key) > 1)
        return value

    def constant(name: str) -> None:
        raise ValueError(f"{name} is a number that JSON does not have")

    def number(text: str) -> int | float:
        if math.isinf(float(text)):
            too_large.append(text)
            return 0
        return json_numbers.number(text) if {*text} & {*".eE"} else int(text)

    return json.JSONDecoder(
        object_pairs_hook=mapping,
        parse_float=number,
        parse_int=number,
        parse_constant=constant,
    )


def _json_document(value: Any, text: str, path: Path, above: int, repeated: list[str]) -> Document:
    """The document, with the lines of its parts if it has items and is also valid YAML."""
    node: yaml.Node = yaml.ScalarNode("", "", yaml.Mark(str(path), 0, 0, 0, "", 0))
    if isinstance(value, dict) and "items" in value:
        try:
            document = yaml_files.first_document(text, path, above=above)
            node = document.node if document and document.node else node
        except InputError:
            pass
    remarks = (
        f"the key {key!r} stands twice in one object, and the last one counts" for key in repeated
    )
    return Document(path, _without_surrogates(value), node, above, tuple(remarks))


def _without_surrogates(value: Any) -> Any:
    """The value as Go reads it, which replaces halves of characters."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return value


def _not_json(error: Exception, content: str, path: Path) -> InputError:
    if isinstance(error, json.JSONDecodeError):
        return InputError(path, f"is not valid JSON: {error.msg}", line=error.lineno)
    if isinstance(error, RecursionError):
        return InputError(path, "is not valid JSON: nested too deeply")
    return InputError(path, f"is not valid JSON: {error}")


def _yaml_documents(text: str, path: Path, *, above: int) -> Iterator[Document]:
    """The documents between lines of `---`."""
    lines = text.replace("\r\n", "\n").split("\n")
    start, chunk = 0, list[str]()
    for number, line in enumerate(lines if lines[-1] else lines[:-1]):
        if line.startswith(_SEPARATOR):
            after = line.removeprefix(_SEPARATOR).strip()
            if after and not after.startswith("#"):
                raise InputError(
                    path,
                    "is not valid YAML: only a comment may follow --- in its line",
                    line=above + number + 1,
                )
            if chunk:
                yield from _document(chunk, path, above + start)
                start, chunk = number + 1, []
                continue
        chunk.append(line)
    if chunk:
        yield from _document(chunk, path, above + start)


def _document(lines: list[str], path: Path, above: int) -> Iterator[Document]:
    document = yaml_files.first_document("\n".join([*lines, ""]), path, above=above)
    if document is not None:
        yield document

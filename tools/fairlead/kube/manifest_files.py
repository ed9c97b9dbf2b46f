"""Reads files that people wrote: AdmissionReviews, or manifests to be reviewed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import yaml

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.kube import admission_reviews, labels

SUFFIXES = (".yaml", ".yml", ".json")
"""The files of a folder that are read."""

# Far above what any API server stores, far below what recursion here takes.
_DEEPEST = 100
_LARGEST = 1_000_000
_NEITHER = "holds neither an AdmissionReview nor a manifest"


def read(path: Path, *, extra_key: str | None = None) -> list[yaml_files.Document]:
    """The AdmissionReviews and manifests of a JSON or YAML file, or of standard input for
    files.STDIN; each item of a List is one. A mapping with the key `extra_key` may stand among
    them, though it is not a Kubernetes object.

    Raises InputError if a document is neither, holds a value that JSON cannot express, or has a
    label that no API server accepts.
    """
    documents = _checked(_documents(path), extra_key)
    if not documents:
        raise InputError(
            yaml_files.shown(path),
            "is a List without items: name a file that holds an AdmissionReview or a manifest",
        )
    return documents


def read_folder(
    folder: Path, *, extra_key: str | None = None
) -> tuple[list[yaml_files.Document], int]:
    """The AdmissionReviews and manifests of all files below a folder, sorted by path, and the
    number of documents that are neither. Hidden files and folders are left out. For
    `extra_key`, see read.

    Raises InputError for invalid YAML or JSON, and for a broken manifest.
    """
    documents: list[yaml_files.Document] = []
    skipped = 0
    for path in _below(folder):
        objects, ignored = _objects(path, extra_key)
        documents += _checked(objects, extra_key)
        skipped += ignored
    return documents, skipped


def _below(folder: Path) -> Iterator[Path]:
    """The files to read, also in folders that are symbolic links, each folder once. Raises
    InputError for what is not a file: reading a pipe would never end.
    """
    visited = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        folders[:] = [] if real in visited else sorted(n for n in folders if not n.startswith("."))
        for name in [] if real in visited else sorted(names):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                path = Path(parent, name)
                if path.exists() and not path.is_file():
                    raise InputError(path, "is not a file, but a pipe or a device: remove it")
                yield path
        visited.add(real)


def _objects(path: Path, extra_key: str | None) -> tuple[list[yaml_files.Document], int]:
    """The documents of a file that are Kubernetes objects, and the number of the others, which is
    at least 1 if there are no objects.
    """
    text = yaml_files.read_text(path, may_be_blank=True)
    if path.suffix == ".json" and text.strip():
        value = yaml_files.parse_json(text, path)
        is_object = isinstance(value, dict) and _is_meant(value.keys(), extra_key)
        return (
            ([_with_lines(yaml_files.Document(path, value, None), text)], 0)
            if is_object
            else ([], 1)
        )
    ignored: set[int] = set()  # their lines

    def is_object_node(node: yaml.Node) -> bool:
        keys = {key.value for key, _ in node.value} if isinstance(node, yaml.MappingNode) else set()
        if _is_meant(keys, extra_key):
            return True
        ignored.add(node.start_mark.line)
        return False

    objects = yaml_files.parse_yaml(text, path, select=is_object_node)
    return objects, len(ignored) if objects else max(len(ignored), 1)


def _is_meant(keys: Set[str], extra_key: str | None) -> bool:
    """Whether a document with these keys is meant as a Kubernetes object: it has an apiVersion and
    a kind. Or it has the key `extra_key`.
    """
    return keys >= {"apiVersion", "kind"} or extra_key in keys


def _documents(path: Path) -> list[yaml_files.Document]:
    text, name = yaml_files.read_text(path), yaml_files.shown(path)
    if path.suffix == ".json":
        return [
            _with_lines(yaml_files.Document(name, yaml_files.parse_json(text, name), None), text)
        ]
    if text.lstrip().startswith("{"):
        try:  # YAML takes most JSON, but no tabs.
            json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return [
                _with_lines(
                    yaml_files.Document(name, yaml_files.parse_json(text, name), None), text
                )
            ]
    return yaml_files.parse_yaml(text, name)


def _with_lines(document: yaml_files.Document, text: str) -> yaml_files.Document:
    """A JSON document with the lines of its parts, if it is a List and also valid YAML."""
    if _items(document.value) is None:
        return document
    try:
        (with_lines,) = yaml_files.parse_yaml(text, document.path)
    except (InputError, ValueError):
        return document
    return yaml_files.Document(document.path, document.value, with_lines.node)


def _checked(
    documents: list[yaml_files.Document], extra_key: str | None
) -> list[yaml_files.Document]:
    """The documents, with Lists taken apart. Raises InputError."""
    for document in documents:
        _check_json(document)
    parts = [part for document in documents for part in _parts(document)]
    for part in parts:
        if not (isinstance(part.value, dict) and extra_key in part.value):
            _check(part)
    return parts


def _parts(document: yaml_files.Document) -> Iterator[yaml_files.Document]:
    """The items of a List, and of Lists in it; any other document as it is. Items of a typed list,
    such as a PodList, may leave out what the list says: their apiVersion and kind.
    """
    items = _items(document.value)
    if items is None:
        yield document
        return
    kind, api_version = document.value["kind"], document.value.get("apiVersion")
    common = (
        {} if kind == "List" else {"apiVersion": api_version, "kind": kind.removesuffix("List")}
    )
    for index, item in enumerate(items):
        value = {**common, **item} if isinstance(item, dict) else item
        yield from _parts(
            yaml_files.Document(document.path, value, document.part(["items", index]))
        )


def _items(value: Any) -> list[Any] | None:
    """The items of a List or a typed list; None for anything else."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List"):
        return None
    items = value.get("items", [] if kind == "List" else None)
    if items is None and "items" in value:
        return []  # as Go writes an empty list
    return items if isinstance(items, list) else None


def _check(document: yaml_files.Document) -> None:
    value, path = document.value, document.path
    if not isinstance(value, dict):
        raise InputError(path, f"{_NEITHER}: a mapping is expected", line=document.line(()))
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise InputError(
                path, f"{_NEITHER}: {key} is missing or no text", line=document.line([key])
            )
    if value["apiVersion"].count("/") > 1:
        raise InputError(
            path,
            f"apiVersion {value['apiVersion']!r} is malformed: write VERSION or GROUP/VERSION",
            line=document.line(["apiVersion"]),
        )
    metadata = value.get("metadata")
    if admission_reviews.is_review(value) or metadata is None:
        return
    if not isinstance(metadata, dict):
        raise InputError(path, "metadata: a mapping is expected", line=document.line(["metadata"]))
    for key in ("name", "generateName", "namespace"):
        if not isinstance(metadata.get(key), str | None):
            raise InputError(
                path,
                f"metadata.{key}: text is expected: quote it",
                line=document.line(["metadata", key]),
            )
    raw_labels = metadata.get("labels")
    for key, label in (raw_labels if isinstance(raw_labels, dict) else {}).items():
        try:
            labels.check_key(key)
            labels.check_value(label if isinstance(label, str) else _no_text(label))
        except ValueError as error:
            line = document.line(["metadata", "labels", key])
            raise InputError(path, f"metadata.labels: {error}", line=line) from error


def _no_text(label: Any) -> str:
    raise ValueError(f"{label!r} is not a label value: quote it")


def _check_json(document: yaml_files.Document) -> None:
    """Raises InputError for a value that JSON cannot express, and for a document that is too large.

    An alias counts as often as it is used, so that a small file cannot become a huge request.
    """
    pending, count = [(document.value, 1)], 0
    while pending:
        value, depth = pending.pop()
        count += 1
        if depth > _DEEPEST:
            raise InputError(
                document.path,
                f"is nested more than {_DEEPEST} levels deep, or a YAML alias contains itself",
            )
        if count > _LARGEST:
            raise InputError(document.path, f"holds more than {_LARGEST} values, aliases expanded")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise InputError(document.path, f"the key {key!r} is not text: quote it")
            pending += [(part, depth + 1) for part in value.values()]
        elif isinstance(value, list):
            pending += [(part, depth + 1) for part in value]
        elif isinstance(value, float) and not math.isfinite(value):
            raise InputError(document.path, f"holds the number {value}, which JSON has not")
        elif not isinstance(value, str | int | float | None):
            raise InputError(document.path, f"holds a {type(value).__name__}, which JSON has not")

"""Reads files that people wrote: AdmissionReviews, or manifests to be reviewed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from fairlead.common import files
from fairlead.common.errors import InputError
from fairlead.kube import admission_reviews, labels

# Far above what any API server stores, far below what recursion here takes.
_DEEPEST = 100
_LARGEST = 1_000_000
_NEITHER = "holds neither an AdmissionReview nor a manifest"


def read(path: Path) -> list[files.Document]:
    """The AdmissionReviews and manifests of a JSON or YAML file; each item of a List is one.

    Raises InputError if a document is neither, holds a value that JSON cannot express, or has a
    label that no API server accepts.
    """
    documents = []
    for document in _documents(path):
        _check_json(document)
        value = document.value
        listed = (
            isinstance(value, dict)
            and value.get("kind") == "List"
            and isinstance(value.get("items"), list)
        )
        documents += (
            [files.Document(path, item, None) for item in value["items"]] if listed else [document]
        )
    for document in documents:
        _check(document)
    if not documents:
        raise InputError(
            path, "is a List without items: name a file that holds an AdmissionReview or a manifest"
        )
    return documents


def _documents(path: Path) -> list[files.Document]:
    if path.suffix == ".json":
        return [files.Document(path, files.read_json(path), None)]
    text = files.read_text(path)
    if text.lstrip().startswith("{"):
        try:  # YAML takes most JSON, but no tabs.
            return [files.Document(path, json.loads(text), None)]
        except (ValueError, RecursionError):
            pass
    return files.parse_yaml(text, path)


def _check(document: files.Document) -> None:
    value, path = document.value, document.path
    if not isinstance(value, dict):
        raise InputError(path, f"{_NEITHER}: a mapping is expected", line=document.line(()))
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise InputError(
                path, f"{_NEITHER}: {key} is missing or no text", line=document.line([key])
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


def _check_json(document: files.Document) -> None:
    """Raises InputError for a value that JSON cannot express, and for a document that is too large.

    An alias counts as often as it is used, so that a small file cannot become a huge request.
    """
    pending, count = [(document.value, 1)], 0
    while pending:
        value, depth = pending.pop()
        count += 1
        if depth > _DEEPEST:
            raise InputError(
                document.path, f"is nested deeper than {_DEEPEST} levels, or in itself"
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

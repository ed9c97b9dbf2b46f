"""Reads files that people wrote: AdmissionReviews, or manifests to be reviewed."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.common.yaml_files import Document
from fairlead.inputs import kustomizations, manifest_texts, metadata_checks
from fairlead.inputs.kustomizations import Kustomization
from fairlead.kube import admission_reviews

SUFFIXES = (".yaml", ".yml", ".json")
"""The files of a folder that are read."""

OTHER = "no Kubernetes object"
ENCRYPTED = "encrypted by SOPS"
TEMPLATE = "Helm template"
UNUSED = "Component that no kustomization uses"

# Far above what any API server stores, far below what recursion here takes.
_DEEPEST = 100
_LARGEST = 1_000_000
_TEMPLATE_BEGINS = re.compile(r"\s*(?:- +)*(?:[\w./-]+: +)?\{[{%]")
_BLOCK_BEGINS = re.compile(r"[:-] +[|>][-+0-9]*\s*(?:#.*)?$")
_NEITHER = "holds neither an AdmissionReview nor a manifest"


@dataclass
class Reading:
    """What was read: the objects, what is wrong with others, and what is not an object.

    `unreadable` are documents and files that kubectl would not read, either. `skipped` has what
    stands in folders and is not meant for kubectl: the file, and OTHER, ENCRYPTED, TEMPLATE or
    UNUSED. `unfit` are the patterns to exclude that nothing in the folders fits.
    """

    documents: list[Document] = field(default_factory=list)
    unreadable: list[InputError] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    unfit: Sequence[str] = ()

    @property
    def size(self) -> int:
        """How many documents and files were read, are unreadable, or were skipped."""
        return len(self.documents) + len(self.unreadable) + len(self.skipped)

    def all_readable(self) -> list[Document]:
        """The objects. Raises InputError if anything is unreadable, or has a name or a label that
        no API server accepts.
        """
        problems = [*self.unreadable, *filter(None, map(metadata_checks.problem, self.documents))]
        if problems:
            raise problems[0]
        return self.documents


def read(
    paths: Sequence[Path], *, exclude: Sequence[str] = (), extra_key: str | None = None
) -> Reading:
    """The AdmissionReviews and manifests of files, folders and standard input (yaml_files.STDIN),
    in the order of `paths`; each file once. Each item of a List is one.

    Of a folder, all files with SUFFIXES are read, sorted by path, but hidden ones and those that
    fit a pattern of `exclude`. Where it has kustomizations, kustomize builds them: what they name
    is no object by itself, unless the build fails. A mapping with the key `extra_key`, in any case,
    may stand among the documents, though it is not a Kubernetes object.
    """
    reading = Reading()
    exclusions = _Exclusions(exclude)
    read_files: set[Path] = set()
    for path in paths:
        in_folder = path.is_dir()
        files = [*_below(path, exclusions, reading)] if in_folder else [path]
        by_file = _kustomizations(files, reading, read_files) if in_folder else {}
        built, inputs = _built(by_file, reading)
        for file in files:
            if file.resolve() in read_files | inputs:
                continue
            read_files.add(file.resolve())
            if file in built:
                reading.documents += built[file]
            elif file not in by_file:
                _add(file, reading, in_folder=in_folder, extra_key=extra_key)
    reading.unfit = exclusions.unfit
    return reading


def _kustomizations(
    files: Sequence[Path], reading: Reading, read_files: set[Path]
) -> dict[Path, Kustomization]:
    """The kustomizations among the files of a folder. What cannot be read is unreadable, and needs
    not be read again.
    """
    by_file = {}
    for file in files:
        if file.name in kustomizations.NAMES:
            try:
                if kustomization := kustomizations.read(file):
                    by_file[file] = kustomization
            except InputError as error:
                reading.unreadable.append(error)
                read_files.add(file.resolve())
    return by_file


def _built(
    by_file: dict[Path, Kustomization], reading: Reading
) -> tuple[dict[Path, list[Document]], set[Path]]:
    """The objects that kustomize makes of each kustomization that no other one builds in, and the
    files that are no objects by themselves. What kustomize does not build is unreadable; its
    resources are then objects by themselves, and kustomizations among them are built.
    """
    built: dict[Path, list[Document]] = {}
    failed: set[Path] = set()
    while pending := [
        each
        for each in kustomizations.roots(
            each for each in by_file.values() if each.file not in failed
        )
        if each.file not in built
    ]:
        for each in pending:
            try:
                built[each.file] = _objects(each)
            except InputError as error:
                reading.unreadable.append(error)
                failed.add(each.file)
    inputs = {
        path
        for each in by_file.values()
        for path in (each.named - each.resources if each.file in failed else each.named)
    }
    reading.skipped += [
        (each.file, UNUSED)
        for each in by_file.values()
        if each.component and each.folder.resolve() not in inputs
    ]
    return built, inputs


def _objects(kustomization: Kustomization) -> list[Document]:
    """The objects that kustomize makes. Raises InputError."""
    documents = kustomizations.build(kustomization)
    for document in documents:
        _check_size(document)
        _check(document, None)
    return documents


def _below(folder: Path, exclusions: _Exclusions, reading: Reading) -> Iterator[Path]:
    """The files to read, also in folders that are symbolic links, each folder once. What is not a
    file is unreadable: reading a pipe would never end.
    """
    visited = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        excluded = {
            name for name in (*folders, *names) if exclusions.fit(Path(parent, name), folder)
        }
        folders[:] = [] if real in visited else sorted(n for n in folders if not n.startswith("."))
        for name in [] if real in visited else sorted(names):
            path = Path(parent, name)
            is_meant = name.endswith(SUFFIXES) or name in kustomizations.NAMES
            if not is_meant or name.startswith(".") or name in excluded:
                continue
            if path.exists() and not path.is_file():
                problem = "is not a file, but a pipe or a device: remove it"
                reading.unreadable.append(InputError(path, problem))
                continue
            yield path
        visited.add(real)


class _Exclusions:
    """Patterns of the files and folders that are left out of folders."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.unfit = [*patterns]
        """The patterns that nothing has fitted so far."""
        self._normal = {
            pattern: os.path.normpath(pattern).removeprefix("**/") for pattern in patterns
        }

    def fit(self, path: Path, folder: Path) -> bool:
        """Whether the path, or that of a folder above it and below `folder`, fits a pattern: from
        there, from the working directory, or absolute. So do their names.
        """
        if not self._normal:
            return False
        below = path.relative_to(folder)
        absolute = os.path.normpath(folder.absolute())
        bases = ("", os.path.normpath(folder), os.path.relpath(folder), absolute)
        places = (below, *below.parents[:-1])
        names = {*below.parts, *(str(Path(base, place)) for base in bases for place in places)}
        fitted = {
            pattern
            for pattern, normal in self._normal.items()
            if any(fnmatch.fnmatch(name, normal) for name in names)
        }
        self.unfit = [pattern for pattern in self.unfit if pattern not in fitted]
        return bool(fitted)


def _add(path: Path, reading: Reading, *, in_folder: bool, extra_key: str | None) -> None:
    """Add the objects of a file, and what is wrong with it."""
    if in_folder and _is_template(path):
        reading.skipped.append((path, TEMPLATE))
        return
    raw, before = b"", reading.size
    try:
        raw = yaml_files.content(path)
        for document in manifest_texts.documents(raw, yaml_files.shown(path)):
            for part in _meant(document, reading, in_folder=in_folder, extra_key=extra_key):
                try:
                    _check(part, extra_key)
                    reading.documents.append(part)
                except InputError as error:  # kubectl reads on
                    _add_problem(error, path, reading, in_folder=in_folder)
    except InputError as error:
        _add_problem(error, path, reading, in_folder=in_folder)
    if reading.size == before:
        if in_folder:
            reading.skipped.append((path, OTHER))
        else:
            reading.unreadable.append(InputError(yaml_files.shown(path), _empty(raw)))


def _meant(
    document: Document, reading: Reading, *, in_folder: bool, extra_key: str | None
) -> Iterator[Document]:
    """The objects of a document; one of a folder that is no object is skipped."""
    _check_size(document)
    if in_folder and (what := _not_meant(document.value, extra_key)):
        reading.skipped.append((document.path, what))
    else:
        yield from _parts(document)


def _add_problem(error: InputError, path: Path, reading: Reading, *, in_folder: bool) -> None:
    """Add what is wrong with a file; one of a folder may be a template, which is skipped once."""
    if not _looks_like_template(path):
        reading.unreadable.append(error)
    elif not in_folder:
        problem = f"{error.problem}; it looks like a template: name what Helm or Jinja2 makes of it"
        reading.unreadable.append(InputError(error.path, problem, line=error.line))
    elif (path, TEMPLATE) not in reading.skipped:
        reading.skipped.append((path, TEMPLATE))


def _empty(raw: bytes) -> str:
    """Why a file that can be read holds no object."""
    if not raw.strip():
        return "is empty: remove it, or write what it is for"
    if b"List" in raw or b"items" in raw:
        return "is a List without items: name a file that holds an AdmissionReview or a manifest"
    return "holds no document, only comments: write what it is for"


def _is_template(path: Path) -> bool:
    """Whether the file is below the `templates` of a Helm chart."""
    return any(
        parent.name == "templates" and (parent.parent / "Chart.yaml").is_file()
        for parent in path.parents
    )


def _looks_like_template(path: Path) -> bool:
    """Whether a text that is not YAML holds what Helm or Jinja2 replace: outside quotes and outside
    blocks of text, where a line or a value begins with {{ or {%.
    """
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    block = None  # the indent of the key whose block of text the lines belong to
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if block is not None and (indent > block or not line.strip()):
            continue
        if _TEMPLATE_BEGINS.match(line):
            return True
        block = indent if _BLOCK_BEGINS.search(line) else None
    return False


def _not_meant(value: Any, extra_key: str | None) -> str | None:
    """Why a document in a folder is not meant as a Kubernetes object; None if it is."""
    keys = value.keys() if isinstance(value, dict) else set()
    if "sops" in keys:
        return ENCRYPTED
    if keys >= {"apiVersion", "kind"}:
        metadata = value.get("metadata")
        texts = metadata if isinstance(metadata, dict) else {}
        names = (str(texts.get(key)) for key in ("name", "generateName", "namespace"))
        return TEMPLATE if any("{{" in text for text in names) else None
    return None if _has(keys, extra_key) else OTHER


def _parts(document: Document) -> Iterator[Document]:
    """The items of a List, and of Lists in it; any other document as it is. Items of a typed list,
    such as a PodList, may leave out both their apiVersion and their kind, which the list says.
    """
    items = _items(document)
    if items is None:
        yield document
        return
    kind, api_version = document.value["kind"], document.value.get("apiVersion")
    common = (
        {} if kind == "List" else {"apiVersion": api_version, "kind": kind.removesuffix("List")}
    )
    for index, item in enumerate(items):
        is_untyped = isinstance(item, dict) and not (item.get("apiVersion") or item.get("kind"))
        value = {**item, **common} if is_untyped else item
        yield from _parts(document.at(["items", index], value))


def _items(document: Document) -> list[Any] | None:
    """The items of what kubectl takes for a list: whatever has them, of any kind. None for anything
    else. Raises InputError if they are no list.
    """
    value = document.value
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or "items" not in value:
        return [] if kind == "List" else None
    items = value["items"]
    if items is not None and not isinstance(items, list):
        raise document.error(f"items of {kind}: a list is expected", ["items"])
    return items or []  # Go writes an empty list as null


def _has(keys: Iterable[str], extra_key: str | None) -> bool:
    return extra_key is not None and any(key.lower() == extra_key.lower() for key in keys)


def _check(document: Document, extra_key: str | None) -> None:
    """Raises InputError for what is neither an AdmissionReview nor a manifest."""
    value, path = document.value, document.path
    if not isinstance(value, dict):
        raise document.error(f"{_NEITHER}: a mapping is expected")
    if _has(value, extra_key):
        return
    if path.name in kustomizations.NAMES and kustomizations.is_kustomization(value):
        raise document.error("is a kustomization: name its folder")
    if "sops" in value:
        raise document.error("is encrypted by SOPS: decrypt it first")
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise document.error(f"{_NEITHER}: {key} is missing or no text", [key])
    if value["apiVersion"].count("/") > 1:
        raise document.error(
            f"apiVersion {value['apiVersion']!r} is malformed: write VERSION or GROUP/VERSION",
            ["apiVersion"],
        )
    metadata = value.get("metadata")
    if admission_reviews.is_review(value) or metadata is None:
        return
    if not isinstance(metadata, dict):
        raise document.error("metadata: a mapping is expected", ["metadata"])
    for key in ("labels", "annotations"):
        texts = metadata.get(key)
        if isinstance(texts, dict):  # API servers read null as an empty text
            metadata[key] = {name: "" if text is None else text for name, text in texts.items()}
    for key in ("name", "generateName", "namespace"):
        if not isinstance(metadata.get(key), str | None):
            raise document.error(f"metadata.{key}: text is expected: quote it", ["metadata", key])


def variables(value: Any) -> list[str]:
    """The variables for Flux or envsubst in an object, such as `${REPLICAS}`, sorted."""
    return sorted(
        {f"{text}}}" for text in metadata_checks.VARIABLE.findall(json.dumps(value, default=str))}
    )


def _check_size(document: Document) -> None:
    """Raises InputError for a document that is too large.

    An alias counts as often as it is used, so that a small file cannot become a huge request.
    """
    pending, count = [(document.value, 1)], 0
    while pending:
        value, depth = pending.pop()
        count += 1
        if depth > _DEEPEST:
            raise InputError(document.path, f"is nested more than {_DEEPEST} levels deep")
        if count > _LARGEST:
            raise InputError(document.path, f"holds more than {_LARGEST} values, aliases expanded")
        if isinstance(value, dict):
            pending += [(part, depth + 1) for part in value.values()]
        elif isinstance(value, list):
            pending += [(part, depth + 1) for part in value]

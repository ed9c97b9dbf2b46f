"""Builds the kustomizations of a folder by the real kustomize, and says which file each object
comes from."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.common.yaml_files import Document
from fairlead.inputs import manifest_texts
from fairlead.programs import toolchain

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""The files that make a folder one that kustomize builds."""

_GROUP = "kustomize.config.k8s.io/"
_ORIGIN = "config.kubernetes.io/origin"
_RESOURCES = ("resources", "bases")
_OTHERS = (
    *("components", "crds", "patchesStrategicMerge", "configurations"),
    *("transformers", "generators", "validators"),
)
# What kustomize says of the wrapper, before the cause.
_ABOUT_WRAPPER = re.compile(r"^Error: .*recursed accumulation of path '[^']*': ", re.DOTALL)
_REMOTE = re.compile(r"resources from '([^']+)'")
_WITHIN = 120
"""Seconds within which kustomize must end."""
# Without git, and with a proxy that is not there, kustomize fetches nothing: no file may make the
# gate ask a server.
_NOWHERE = "127.0.0.1:9"
_OFFLINE = {"PATH": "", "HTTP_PROXY": f"http://{_NOWHERE}", "HTTPS_PROXY": f"http://{_NOWHERE}"}
_ABOUT_REMOTE = (_NOWHERE, "no 'git' program on path")


@dataclass(frozen=True)
class Kustomization:
    """A folder with a file for kustomize, the files and folders that this one names, and those of
    them that are its resources.
    """

    folder: Path
    file: Path
    component: bool
    named: frozenset[Path]
    resources: frozenset[Path]


def read(file: Path) -> Kustomization | None:
    """What a file with one of NAMES says; None if it is an object of another API group, such as
    Flux's. Raises InputError if it cannot be read.
    """
    documents = [*manifest_texts.documents(yaml_files.content(file), file)]
    value = documents[0].value if len(documents) == 1 else None
    if not isinstance(value, dict):
        raise InputError(file, "is not a kustomization: one mapping is expected", line=1)
    if not is_kustomization(value):
        return None
    inputs, resources = (
        frozenset((file.parent / path).resolve() for path in paths)
        for paths in (_named(value), _resources(value))
    )
    return Kustomization(file.parent, file, value.get("kind") == "Component", inputs, resources)


def is_kustomization(value: dict[str, Any]) -> bool:
    """Whether what a file with one of NAMES holds is for kustomize, and no object of another API
    group, such as Flux's.
    """
    return str(value.get("apiVersion", _GROUP)).startswith(_GROUP)


def _named(value: dict[str, Any]) -> Iterator[str]:
    """The files and folders that a kustomization names: objects, patches and other inputs."""
    yield from _resources(value)
    for key in _OTHERS:
        yield from _texts(value.get(key))
    for key in ("patches", "patchesJson6902", "replacements"):
        entries = value.get(key)
        for entry in entries if isinstance(entries, list) else ():
            yield from _texts([entry.get("path")] if isinstance(entry, dict) else None)
    openapi = value.get("openapi")
    yield from _texts([openapi.get("path")] if isinstance(openapi, dict) else None)
    for key in ("configMapGenerator", "secretGenerator"):
        entries = value.get(key)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                files = [*_texts(entry.get("files")), *_texts(entry.get("envs"))]
                yield from (text.rpartition("=")[2] for text in files)


def _resources(value: dict[str, Any]) -> Iterator[str]:
    for key in _RESOURCES:
        yield from _texts(value.get(key))


def _texts(value: Any) -> Iterator[str]:
    """The texts of a list that may be paths, and not a patch or an address."""
    for text in value if isinstance(value, list) else ():
        if isinstance(text, str) and "\n" not in text and "://" not in text:
            yield text


def roots(found: Iterable[Kustomization]) -> list[Kustomization]:
    """Those that no other one builds in. Of a circle of them, which kustomize refuses, all."""
    every = list(found)
    named = {each.folder.resolve(): each.named for each in every}
    inner = {folder: _inner(folder, named) for folder in named}
    outer = {
        folder
        for folder in named
        if all(folder not in paths or other in inner[folder] for other, paths in inner.items())
    }
    return [each for each in every if not each.component and each.folder.resolve() in outer]


def _inner(folder: Path, named: Mapping[Path, frozenset[Path]]) -> set[Path]:
    """All that the kustomization of a folder builds in, by way of others, too."""
    inner: set[Path] = set()
    pending = {folder}
    while pending := {path for each in pending for path in named.get(each, ())} - inner:
        inner |= pending
    return inner


def build(kustomization: Kustomization) -> list[Document]:
    """The objects that kustomize makes of the folder. Each has the file that it comes from, and its
    lines there. Raises InputError if kustomize fails.
    """
    program = toolchain.ensure([toolchain.KUSTOMIZE])[toolchain.KUSTOMIZE]
    with tempfile.TemporaryDirectory() as above:
        base = os.path.relpath(kustomization.folder.resolve(), Path(above).resolve())
        wrapper = {"resources": [base], "buildMetadata": ["originAnnotations"]}
        Path(above, NAMES[0]).write_text(yaml.safe_dump(wrapper))
        try:
            done = subprocess.run(
                [program, "build", above],
                capture_output=True,
                timeout=_WITHIN,
                env={**_OFFLINE, "HOME": above},
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            problem = f"kustomize did not build it within {_WITHIN} s"
            raise InputError(kustomization.file, problem) from error
        if done.returncode:
            text = done.stderr.decode("utf-8", "replace").strip().replace(f"'{base}': ", "")
            problem = "kustomize does not build it, and its resources count as they stand"
            raise InputError(kustomization.file, f"{problem}: {_cause(text)}")
        objects = manifest_texts.documents(done.stdout, kustomization.file)
        sources = cache(_sources)  # a file may have many objects
        return [_placed(each, kustomization, Path(above), sources) for each in objects]


def _cause(text: str) -> str:
    """Why kustomize built nothing, from what it printed."""
    if any(words in text for words in _ABOUT_REMOTE) and (remote := _REMOTE.findall(text)):
        return f"{remote[-1]} is elsewhere, and nothing is fetched"
    return _ABOUT_WRAPPER.sub("", text)[-500:]


def _placed(
    document: Document,
    kustomization: Kustomization,
    above: Path,
    sources: Callable[[Path], list[Document]],
) -> Document:
    """The object with the place that it comes from: its own file, or the kustomization."""
    metadata = document.value.get("metadata") if isinstance(document.value, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    origin = annotations.pop(_ORIGIN, None) if isinstance(annotations, dict) else None
    if isinstance(metadata, dict) and annotations == {}:
        del metadata["annotations"]
    path = (yaml_files.yaml_value(origin) or {}).get("path") if origin else None
    if path is None:
        return Document(kustomization.file, document.value, None)
    file = (above / path).resolve()
    file = file if kustomization.folder.is_absolute() else _relative(file)
    return _in_file(document, file, sources(file))


def _relative(file: Path) -> Path:
    """The file as messages name it where its folder was named by a relative path."""
    return Path(os.path.relpath(file))


def _name(document: Document) -> str:
    return str((document.value.get("metadata") or {}).get("name"))


def _sources(file: Path) -> list[Document]:
    """The objects of a file; none if it cannot be read."""
    try:
        documents = [*manifest_texts.documents(yaml_files.content(file), file)]
    except InputError:
        return []
    return [document for document in documents if isinstance(document.value, dict)]


def _in_file(document: Document, file: Path, sources: Iterable[Document]) -> Document:
    """The object as the one of its kind and name in the file, for the lines of its parts."""
    kind, name = document.value.get("kind"), (document.value.get("metadata") or {}).get("name", "")
    # kustomize may have put something before the name or behind it.
    fitting = [
        source for source in sources if source.value.get("kind") == kind and _name(source) in name
    ]
    best = max(fitting, key=lambda source: len(_name(source)), default=None)
    if best is None:
        return Document(file, document.value, None)
    return Document(file, document.value, best.node, best.above)

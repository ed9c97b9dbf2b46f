"""Reads the manifests to place, for `fairlead place`, `fairlead what-if` and `fairlead query`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.inputs import kustomizations, manifest_files

_AFTER_PATCHES = (
    *("namespace", "namePrefix", "nameSuffix", "replicas"),
    *("configMapGenerator", "secretGenerator"),
)
"""What Kustomize does after patches: it changes the names by which they find objects, or what they
write."""


def documents(paths: Sequence[Path]) -> list[yaml_files.Document]:
    """The manifests of files, folders and standard input. Of a folder with a kustomization, what
    kustomize builds. Raises InputError.
    """
    return manifest_files.read(paths).all_readable()


def require_patchable(paths: Sequence[Path]) -> None:
    """Raises InputError for a folder whose kustomization undoes what patches for Argo CD do."""
    for path in paths:
        files = (path / name for name in kustomizations.NAMES) if path.is_dir() else ()
        for file in filter(Path.is_file, files):
            (document, *_) = yaml_files.read_yaml(file)
            keys = document.value if isinstance(document.value, dict) else {}
            for key in _AFTER_PATCHES:
                if keys.get(key):
                    raise InputError(
                        file,
                        f"{key} comes after the patches of Argo CD, which would not find the "
                        "objects: write it into a folder of its own, and name that as a resource "
                        "here",
                        line=document.line([key]),
                    )

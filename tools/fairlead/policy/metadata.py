"""Reads the METADATA of Rego packages: the title, the description and what else a module says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from fairlead.common import yaml_files
from fairlead.common.errors import InputError

BLOCK = re.compile(r"^# METADATA\n((?:#.*\n)+)(?:#.*\n|\s)*?package\s+([\w.]+)", re.MULTILINE)
"""The METADATA of a package, and its name."""


@dataclass(frozen=True)
class PackageMetadata:
    """The METADATA of a module's package: the annotations as they are written, the `package`, and
    the line where they begin.
    """

    annotations: Mapping[str, Any]
    package: str
    line: int

    @property
    def title(self) -> str:
        """The title; empty if there is none."""
        return str(self.annotations.get("title", ""))

    @property
    def description(self) -> str:
        """The description; empty if there is none."""
        return str(self.annotations.get("description", "")).strip()


def of(text: str, source: object) -> PackageMetadata | None:
    """The METADATA of a module's package, or None. Raises InputError for what is not YAML."""
    block = BLOCK.search(text)
    if block is None:
        return None
    line = text.count("\n", 0, block.start()) + 1
    try:
        annotations = yaml_files.yaml_value(uncommented(block[1]))
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise InputError(source, f"METADATA: is not valid YAML: {problem}", line=line) from error
    return PackageMetadata(annotations if isinstance(annotations, dict) else {}, block[2], line)


def uncommented(comment: str) -> str:
    """The text of lines that are comments."""
    return re.sub(r"^# ?", "", comment, flags=re.MULTILINE)


def commented(text: str) -> str:
    """The lines of a text as comments."""
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())

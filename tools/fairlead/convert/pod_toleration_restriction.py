"""Reads the configuration of the admission plugin PodTolerationRestriction: its file, and the
annotations of namespaces.

Source: Kubernetes documentation, Admission Control, "PodTolerationRestriction"; the plugin's own
code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.common.yaml_files import Location
from fairlead.convert.findings import (
    Assignment,
    Everywhere,
    Findings,
    Named,
    Origin,
    Placement,
)
from fairlead.convert.reading import Lenient, tolerations
from fairlead.settings.models import Toleration

NAME = "PodTolerationRestriction"
DEFAULT = "scheduler.alpha.kubernetes.io/defaultTolerations"
WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"

_DIFFERENCES = (
    f"{NAME} also gives pods with requests or limits a toleration of "
    "node.kubernetes.io/memory-pressure: add it to the tolerations of the pools if you rely on it",
    "the tolerations of a pool, and those that the cluster itself adds, are allowed even if the "
    "whitelist lacks them",
)

_Tolerations = tuple[Toleration, ...]


class _File(Lenient):
    default: list[dict[str, Any]] = []
    whitelist: list[dict[str, Any]] = []


class _Part:
    """What pods get, or which tolerations they may have: by namespace, and everywhere else."""

    def __init__(self) -> None:
        self.own: dict[str, tuple[Origin, _Tolerations]] = {}
        self.common: tuple[Origin, _Tolerations] | None = None

    def placements(self, assignment: Callable[[_Tolerations], Assignment]) -> Iterator[Placement]:
        """What that gives the namespaces, by the assignment with these tolerations."""
        if self.common:
            origin, tolerations = self.common
            yield Placement(origin, Everywhere(frozenset(self.own)), assignment(tolerations))
        for name, (origin, tolerations) in sorted(self.own.items()):
            yield Placement(origin, Named(name), assignment(tolerations))


class TolerationPlugin:
    """Collects the configuration of PodTolerationRestriction from all documents, because what a
    namespace gets depends on its annotations and on the file.
    """

    def __init__(self) -> None:
        self.file: Origin | None = None
        """The document that has the plugin's configuration."""
        self._default = _Part()
        self._whitelist = _Part()

    def collect_namespace(
        self,
        document: yaml_files.Document,
        name: str,
        annotations: Mapping[str, str],
        origin: Origin,
    ) -> None:
        """Add the annotations of a namespace. Raises InputError."""
        for part, key in ((self._default, DEFAULT), (self._whitelist, WHITELIST)):
            if key in annotations:
                at = ["metadata", "annotations", key]
                part.own[name] = (origin, _parsed(document, at, annotations[key]))

    def collect_file(self, document: yaml_files.Document, origin: Origin) -> None:
        """Add what the plugin's file says. Raises InputError."""
        config = document.parse(_File)
        for part, key, value in (
            (self._default, "default", config.default),
            (self._whitelist, "whitelist", config.whitelist),
        ):
            part.common = (origin, _normal(document, [key], value))

    def finish(self, findings: Findings) -> None:
        """Add the placements of all namespaces."""
        placements = [
            *self._default.placements(lambda tolerations: Assignment(tolerations=tolerations)),
            *self._whitelist.placements(
                lambda tolerations: Assignment(allowed_tolerations=tolerations or None)
            ),
        ]
        if placements:
            findings.placements += [part for part in placements if not part.assignment.empty]
            findings.differ(_DIFFERENCES)


def _parsed(document: yaml_files.Document, at: Location, text: str) -> _Tolerations:
    """The tolerations of an annotation. An empty text means none. Raises InputError."""
    try:
        value = json.loads(text) if text else []
    except (ValueError, RecursionError) as error:
        raise InputError(
            document.path, f"{at[-1]} is not valid JSON ({error})", line=document.line(at)
        ) from error
    return _normal(document, at, value)


def _normal(document: yaml_files.Document, at: Location, value: Any) -> _Tolerations:
    """The tolerations in a list. An empty field is one that is not there. Raises InputError."""
    entries = [
        {key: part for key, part in entry.items() if part not in ("", None)}
        if isinstance(entry, dict)
        else entry
        for entry in (value if isinstance(value, list) else [value])
    ]
    return tolerations(document, at, [] if value is None else entries)

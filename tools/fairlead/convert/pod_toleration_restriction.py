"""Reads the configuration of the admission plugin PodTolerationRestriction: its file, and the
annotations of namespaces.

Source: Kubernetes documentation, Admission Control, "PodTolerationRestriction"; the plugin's own
code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic.alias_generators import to_camel

from fairlead.common import mistakes, yaml_files
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


_KEYS = {name.lower(): name for name in map(to_camel, Toleration.model_fields)}
"""The keys of a toleration, by those that encoding/json takes for them in annotations."""


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
        self._ignored: list[tuple[Origin, str]] = []

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
                value = _json(document, at, annotations[key])
                part.own[name] = (origin, self._normal(document, at, value, origin, _KEYS))

    def collect_file(self, document: yaml_files.Document, origin: Origin) -> None:
        """Add what the plugin's file says. Raises InputError."""
        config = document.parse(_File)
        for part, key, value in (
            (self._default, "default", config.default),
            (self._whitelist, "whitelist", config.whitelist),
        ):
            keys = {name: name for name in _KEYS.values()}
            part.common = (origin, self._normal(document, [key], value, origin, keys))

    def finish(self, findings: Findings) -> None:
        """Add the placements of all namespaces."""
        for origin, ignored in self._ignored:
            findings.leave_out(origin, ignored)
        placements = [
            *self._default.placements(lambda tolerations: Assignment(tolerations=tolerations)),
            *self._whitelist.placements(
                lambda tolerations: Assignment(allowed_tolerations=tolerations or None)
            ),
        ]
        if placements:
            findings.placements += [part for part in placements if not part.assignment.empty]
            findings.differ(_DIFFERENCES)

    def _normal(
        self,
        document: yaml_files.Document,
        at: Location,
        value: Any,
        origin: Origin,
        keys: Mapping[str, str],
    ) -> _Tolerations:
        """The tolerations in a list, as the plugin reads them: by `keys`, what a toleration has by
        the keys that it is written with; others are ignored. An empty field is one that is not
        there. Raises InputError.
        """
        field = mistakes.path(tuple(at))
        if value is not None and not (
            isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
        ):
            problem = f"{field} is no list of tolerations, so {NAME} cannot read it: write one"
            raise document.error(problem, at)
        entries: list[dict[str, Any]] = []
        for entry in value or []:
            entries.append({})
            for key, part in entry.items():
                name = keys.get(key.lower() if keys is _KEYS else key)
                if name is None:
                    self._ignored.append((origin, f"{field}: {NAME} ignores the key {key!r}"))
                elif part not in ("", None):
                    entries[-1][name] = part
        return tolerations(document, at, entries)


def _json(document: yaml_files.Document, at: Location, text: str) -> Any:
    """The value of an annotation. An empty text means none. Raises InputError."""
    try:
        return json.loads(text) if text else []
    except (ValueError, RecursionError) as error:
        raise document.error(f"{at[-1]} is not valid JSON ({error})", at) from error

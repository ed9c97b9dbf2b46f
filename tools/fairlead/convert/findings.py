"""What the policies of other programs say, in the terms of Fairlead's settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.common import yaml_files
from fairlead.common.yaml_files import Location
from fairlead.settings.models import Exempt, Toleration
from fairlead.settings.selectors import Selector

REPLACED = (
    "a pod that has another value than its pool gives is refused, where Gatekeeper and Kyverno "
    "replace the value"
)
ADDED = "a pool's tolerations are added to those that a pod has, which stay"
"""Differences of what places pods."""


@dataclass(frozen=True)
class Origin:
    """An object of the input: its place (`FILE:LINE`) and its title (`Assign "pool1"`)."""

    source: str
    object: str


@dataclass(frozen=True)
class NotTakenOver:
    """A part of an object that the settings do not have, why, and what to do instead."""

    origin: Origin
    reason: str


@dataclass(frozen=True)
class Everywhere:
    """All namespaces but those that are `excluded`."""

    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Labelled:
    """The namespaces with a label."""

    key: str
    value: str


@dataclass(frozen=True)
class Named:
    """One namespace."""

    name: str


Target = Everywhere | Labelled | Named


@dataclass(frozen=True)
class Assignment:
    """What pods of a namespace get. `closed` means that they have no nodeSelector of their own;
    `allowed` are the keys and values that they may have, and `allowed_tolerations` the tolerations,
    None for any.
    """

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    closed: bool = False
    allowed: Mapping[str, str] | None = None
    allowed_tolerations: tuple[Toleration, ...] | None = None

    @property
    def about_tolerations(self) -> bool:
        """Whether pods get tolerations, or may have some only."""
        return bool(self.tolerations) or self.allowed_tolerations is not None

    @property
    def empty(self) -> bool:
        """Whether pods get nothing, and may have any toleration."""
        return not self.node_selector and not self.about_tolerations


@dataclass(frozen=True)
class Placement:
    """What an object of the input gives the pods of the namespaces in `target`."""

    origin: Origin
    target: Target
    assignment: Assignment


@dataclass(frozen=True)
class Copy:
    """What gives the pods of each namespace a node label with the value of the namespace's label
    `key`.
    """

    origin: Origin
    key: str
    node_label: str


@dataclass(frozen=True)
class Instance:
    """An instance of an intent, for one constraint. `mode` is None if it is only kept for later."""

    origin: Origin
    name: str
    intent: str
    parameters: Mapping[str, Any]
    namespaces: Selector
    exempt: Exempt
    mode: str | None


class Findings:
    """Collects what the documents say."""

    def __init__(self) -> None:
        self.placements: list[Placement] = []
        self.copies: list[Copy] = []
        self.instances: list[Instance] = []
        self.not_taken_over: list[NotTakenOver] = []
        self.differences: list[str] = []
        self.assumptions: list[str] = []
        self.namespaces: dict[str, tuple[Origin, Mapping[str, str]]] = {}
        """The namespaces that the input describes: their labels."""

    def leave_out(self, origin: Origin, *reasons: str) -> None:
        """Note what is not taken over of an object, once."""
        for reason in reasons:
            note = NotTakenOver(origin, printable(reason))
            if note not in self.not_taken_over:
                self.not_taken_over.append(note)

    def add_instance(self, instance: Instance, *, reports_only: str) -> None:
        """Add an instance. `reports_only` is the field that says that a policy refuses nothing, for
        a `mode` that is None.
        """
        self.instances.append(instance)
        if instance.mode is None:
            self.leave_out(
                instance.origin,
                f"{reports_only} only reports, so the instance is switched off: use fairlead "
                "audit, or remove enabled: false and set enforcement to warn",
            )

    def assume(self, sentence: str) -> None:
        """Note what is taken for granted, once."""
        if sentence not in self.assumptions:
            self.assumptions.append(sentence)

    def differ(self, sentences: Iterable[str]) -> None:
        """Note what Fairlead does differently, once."""
        self.differences += [text for text in sentences if text not in self.differences]


def each_once(tolerations: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """The tolerations, each of those that are alike once."""
    distinct: list[Toleration] = []
    for toleration in tolerations:
        if toleration not in distinct:
            distinct.append(toleration)
    return tuple(distinct)


def origin_of(document: yaml_files.Document, part: str = "", at: Location = ()) -> Origin:
    """The origin of a document, which is an object of Kubernetes or a configuration file, or that
    of the `part` of it that stands `at` a place.
    """
    line = document.line(at)
    path = printable(str(document.path))
    value = document.value
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    title = str(value.get("kind", "configuration"))
    title += f' "{name}"' if name else ""
    return Origin(f"{path}:{line}" if line else path, printable(f"{title}{part}"))


def printable(text: str) -> str:
    """`text` in one line. It goes into comments, which a line break would end."""
    return "".join(character if character.isprintable() else " " for character in text)

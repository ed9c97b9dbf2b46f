"""Reads the documents to convert, and the parts that several kinds of them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from fairlead.common import errors, mistakes, yaml_files
from fairlead.common.errors import InputError
from fairlead.common.yaml_files import Location
from fairlead.inputs import manifest_files
from fairlead.settings.models import Toleration
from fairlead.settings.selectors import Selector

PLUGIN_FILE = "podNodeSelectorPluginConfig"
"""The only key of the file of PodNodeSelector, which has no apiVersion and no kind."""

TOLERATIONS_GROUP = "podtolerationrestriction.admission.k8s.io"
"""The API group of the file of PodTolerationRestriction."""

_GROUPS = ("gatekeeper.sh", "kyverno.io", "apiserver.config.k8s.io", TOLERATIONS_GROUP)
"""The API groups, with those below them, whose objects in folders are converted."""


class Lenient(BaseModel):
    """A part of another program's object: types are checked, and unknown fields are kept, to be
    named.
    """

    model_config = ConfigDict(
        extra="allow", strict=True, frozen=True, alias_generator=to_camel, validate_by_name=True
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        """API servers take null for a field that is left out."""
        if isinstance(value, dict):
            return {key: part for key, part in value.items() if part is not None}
        return value


class Metadata(Lenient):
    """The metadata of an object."""

    name: str = ""
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Expression(Lenient):
    """A requirement of a label selector."""

    key: str
    operator: str
    values: list[str] | None = None


class _Tolerations(Lenient):
    tolerations: list[Toleration]


class AnySelector(Lenient):
    """A label selector, which may have what Kubernetes does not take, such as wildcards."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None

    def selector(self) -> Selector:
        """The selector as Kubernetes reads it. Raises ValueError for an invalid one."""
        expressions = [
            {
                "key": term.key,
                "operator": term.operator,
                "values": term.values or [],
            }
            for term in self.match_expressions or []
        ]
        try:
            return Selector.model_validate(
                {"matchLabels": self.match_labels or {}, "matchExpressions": expressions}
            )
        except ValidationError as error:
            details = error.errors()[0]
            cause = (details.get("ctx") or {}).get("error", details["msg"])
            raise ValueError(str(cause)) from error


def read(paths: Sequence[Path]) -> list[yaml_files.Document]:
    """The documents of files, folders and standard input (files.STDIN), in the order of `paths`;
    each file once. Of folders, only objects of the sources and namespaces.

    Raises UsageError with all files that cannot be read, and InputError if there is nothing to
    convert.
    """
    files = {yaml_files.shown(path) for path in paths}
    reading = manifest_files.read(paths, extra_key=PLUGIN_FILE)
    if reading.unreadable:
        raise errors.together(reading.unreadable)
    documents = [
        document
        for document in reading.documents
        if document.path in files or _concerns(document.value)
    ]
    if not any(is_policy(document.value) for document in documents):
        raise InputError(
            ", ".join(str(yaml_files.shown(path)) for path in paths),
            "holds nothing to convert: name files with objects of Gatekeeper or Kyverno, "
            "with namespaces that have annotations, or the configuration of PodNodeSelector or "
            "PodTolerationRestriction",
        )
    return documents


def plugin_key(value: dict[str, Any]) -> str | None:
    """The key of PodNodeSelector's file as a document writes it: the plugin takes it in any
    case.
    """
    return next((key for key in value if key.lower() == PLUGIN_FILE.lower()), None)


def unknown(model: BaseModel, *ignored: str) -> list[str]:
    """The fields with a value that the model does not have, but those `ignored`, sorted."""
    extra = model.model_extra or {}
    return sorted(key for key, value in extra.items() if value and key not in ignored)


def is_policy(value: dict[str, Any]) -> bool:
    """Whether a document is more than a namespace that says nothing about placement."""
    if not is_namespace(value):
        return True
    return bool((value.get("metadata") or {}).get("annotations"))


def is_namespace(value: dict[str, Any]) -> bool:
    """Whether a document is a Namespace."""
    return (value.get("apiVersion"), value.get("kind")) == ("v1", "Namespace")


def group_of(value: dict[str, Any]) -> str:
    """The API group of an object."""
    return str(value.get("apiVersion", "")).rpartition("/")[0]


def node_selector(document: yaml_files.Document, at: Location, value: Any) -> dict[str, str]:
    """The nodeSelector `value`, which is the part of the document `at`. Raises InputError."""
    field = mistakes.path(tuple(at))
    if not isinstance(value, dict):
        raise document.error(f"{field}: write a mapping", at)
    try:
        return dict(Selector.model_validate({"matchLabels": value}).match_labels)
    except ValidationError as error:
        details = error.errors()[0]
        cause = (details.get("ctx") or {}).get("error", "write its values as text, in quotes")
        problem = f"{field} is not a nodeSelector: {cause}"
        raise document.error(problem, at) from error


def tolerations(document: yaml_files.Document, at: Location, value: Any) -> tuple[Toleration, ...]:
    """The tolerations in the list `value`, the part of the document `at`. Raises InputError."""
    try:
        return tuple(_Tolerations.model_validate({"tolerations": value}).tolerations)
    except ValidationError as error:
        problem = "; ".join(
            mistake.text for mistake in mistakes.of(error, _Tolerations, {"tolerations": value})
        )
        field = mistakes.path(tuple(at))
        raise document.error(f"{field}: {problem}", at) from error


def _concerns(value: dict[str, Any]) -> bool:
    group = group_of(value)
    ours = any(group == suffix or group.endswith(f".{suffix}") for suffix in _GROUPS)
    return ours or plugin_key(value) is not None or is_namespace(value)

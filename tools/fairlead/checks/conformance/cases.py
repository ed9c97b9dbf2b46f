"""Reads the conformance cases: each is one request with the answer that every engine must give. The
format is described in docs/conformance.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fairlead.common import files, paths
from fairlead.common.errors import InputError
from fairlead.policy import bundles
from fairlead.settings import loading
from fairlead.settings.models import Settings
from fairlead.settings.strict import LabelKey, LabelValue


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_by_name=True)


class Namespace(_Strict):
    """The namespace of the request.

    `state` is `known` (it exists, and OPA knows it), `new` (it exists, but OPA has not seen it yet)
    or `absent` (it does not exist).
    """

    name: str = Field(min_length=1)
    labels: dict[LabelKey, LabelValue] = {}
    state: Literal["known", "new", "absent"] = "known"


class Request(_Strict):
    """The request, with the fields of an AdmissionReview's request. DELETE has an oldObject, other
    operations have an object.
    """

    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = Field(None, alias="oldObject")
    user_info: dict[str, Any] | None = Field(None, alias="userInfo")
    sub_resource: str | None = Field(None, alias="subResource")
    dry_run: bool = Field(False, alias="dryRun")

    @model_validator(mode="before")
    @classmethod
    def _what_goes(cls, value: Any) -> Any:
        """Move the object of a DELETE to oldObject, which is what it deletes."""
        if (
            isinstance(value, dict)
            and value.get("operation") == "DELETE"
            and "oldObject" not in value
        ):
            return {"oldObject" if key == "object" else key: part for key, part in value.items()}
        return value

    @model_validator(mode="after")
    def _objects(self) -> Request:
        needed = {"UPDATE": ("object", "oldObject"), "DELETE": ("oldObject",)}.get(
            self.operation, ("object",)
        )
        for field, value in (("object", self.object), ("oldObject", self.old_object)):
            if (field in needed) != (value is not None):
                raise ValueError(
                    f"{self.operation} {'needs an' if field in needed else 'has no'} {field}"
                )
            for key in ("apiVersion", "kind"):
                if value is not None and not isinstance(value.get(key), str):
                    raise ValueError(f"{field} has no {key}")
            if value is not None and not isinstance(value.get("metadata", {}), dict):
                raise ValueError(f"{field}.metadata is not a mapping")
        return self

    @property
    def manifest(self) -> dict[str, Any]:
        """The object of the request, or for DELETE the object that is deleted."""
        manifest = self.old_object if self.object is None else self.object
        assert manifest is not None  # noqa: S101 - each operation has one, see _objects
        return manifest


class Expect(_Strict):
    """The expected answer. `message` and each of `warnings` are parts of the actual text, `object`
    is a part of the object afterwards.

    In `object`, lists are compared as a whole, and null means absent or empty.
    """

    allowed: bool
    message: str | None = None
    object: dict[str, Any] | None = None
    warnings: list[str] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Expect:
        if self.allowed and self.message is not None:
            raise ValueError("an allowed request has no message: use warnings")
        if not self.allowed and self.object is not None:
            raise ValueError("a refused request has no object")
        return self


@dataclass(frozen=True)
class Case:
    """One case. `settings` are complete; the file has only those that differ from the defaults."""

    name: str
    intent: str
    settings: Settings
    namespace: Namespace | None
    request: Request
    expect: Expect


_KEYS = ("name", "intent", "settings", "namespace", "request", "expect")
_Part = TypeVar("_Part", bound=_Strict)


def load(path: Path | None = None, settings: Settings | None = None) -> list[Case]:
    """Read the cases of a file, or of every *.yaml of a folder. If `path` is None, they are those
    of testdata/cases and of the folders of the policies, for the intents in force.

    `settings` name the folders of policies besides the project's, and which intents are switched
    off. The project's own cases know only its own policies: others may refuse the same request.
    Raises InputError with file and line for an invalid case, and for a name that is used twice.
    """
    settings = settings or Settings()
    sources = _sources(path, settings)
    project = paths.root() / "testdata" / "cases"
    own = settings.model_copy(update={"policies": []})
    cases: list[Case] = []
    seen: dict[str, str] = {}
    for source in sources:
        for document in _listed(source):
            case = _case(document, own if source.is_relative_to(project) else settings)
            if path is None and not settings.enabled(case.intent):
                continue
            where = f"{source}:{document.line(['name'])}"
            if case.name in seen:
                raise InputError(
                    where,
                    f"the name {case.name!r} is used at {seen[case.name]}, too: names are unique",
                )
            seen[case.name] = where
            cases.append(case)
    return cases


def _sources(path: Path | None, settings: Settings) -> list[Path]:
    if path is not None:
        sources = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        if not sources:
            raise InputError(path, "holds no *.yaml file with cases")
        return sources
    shared = paths.root() / "testdata" / "cases"
    own = (folder.glob("*/cases/**/*.yaml") for folder in bundles.folders(settings))
    return [*sorted(shared.glob("*.yaml")), *(path for found in own for path in sorted(found))]


def _listed(source: Path) -> list[files.Document]:
    documents = []
    for document in files.read_yaml(source):
        if not isinstance(document.value, list) or not isinstance(document.node, yaml.SequenceNode):
            raise InputError(source, "a list of cases is expected", line=document.line(()))
        pairs = zip(document.value, document.node.value, strict=True)
        documents += [files.Document(source, value, node) for value, node in pairs]
    if not documents:
        raise InputError(source, "is an empty list: add a case")
    return documents


def _case(document: files.Document, base: Settings) -> Case:
    _check_keys(document, _KEYS, "a case")
    for key in ("name", "intent"):
        value = document.value.get(key)
        if not isinstance(value, str) or not value:
            raise InputError(
                document.path, f"{key}: every case needs one, as text", line=document.line([key])
            )
    part = _part(document, "settings")
    settings = loading.parse(part, base.policies) if part else Settings()
    settings = settings.model_copy(
        update={"policies": base.policies, "intents": {**base.switches(), **settings.intents}}
    )
    namespace = _part(document, "namespace")
    return Case(
        name=document.value["name"],
        intent=document.value["intent"],
        settings=settings,
        namespace=_parsed(namespace, Namespace) if namespace else None,
        request=_parsed(_needed(document, "request"), Request),
        expect=_parsed(_needed(document, "expect"), Expect),
    )


def _part(document: files.Document, key: str) -> files.Document | None:
    """The value of `key` as a document of its own."""
    if document.value.get(key) is None:
        return None
    assert isinstance(document.node, yaml.MappingNode)  # noqa: S101 - its value is a mapping
    node = next(value for name, value in document.node.value if name.value == key)
    return files.Document(document.path, document.value[key], node)


def _needed(document: files.Document, key: str) -> files.Document:
    part = _part(document, key)
    if part is None:
        raise InputError(document.path, f"{key}: every case needs one", line=document.line([key]))
    return part


def _parsed(document: files.Document, model: type[_Part]) -> _Part:
    keys = [field.alias or name for name, field in model.model_fields.items()]
    _check_keys(document, keys, f"the {model.__name__.lower()} of a case")
    return document.parse(model)


def _check_keys(
    document: files.Document, known: Mapping[str, Any] | list[str] | tuple[str, ...], what: str
) -> None:
    """Raises InputError if the document is not a mapping or has other keys than `known`."""
    if not isinstance(document.value, dict):
        raise InputError(
            document.path, f"{what} is a mapping with {', '.join(known)}", line=document.line(())
        )
    for key in document.value:
        if key not in known:
            line = document.line([key])
            raise InputError(
                document.path, f"unknown key {key!r}: {what} has {', '.join(known)}", line=line
            )

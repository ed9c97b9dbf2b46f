"""Reads the conformance cases: each is one request with the answer that every engine must give. The
format is described in docs/conformance.md."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fairlead.common import paths, yaml_files
from fairlead.common.errors import InputError, UsageError
from fairlead.kube import admission_reviews
from fairlead.policy import fairlead_yaml, intent_file, policy_files
from fairlead.policy.exceptions import ExceptionSpec, PolicyException
from fairlead.policy.intents import Intent
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.revision import MAIN
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
    operations have an object. `parent` is the object whose subresource gets another kind of object:
    the Deployment that gets a Scale. Without it, that is a pod.
    """

    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = Field(None, alias="oldObject")
    user_info: dict[str, Any] | None = Field(None, alias="userInfo")
    sub_resource: str | None = Field(None, alias="subResource")
    parent: dict[str, Any] | None = None
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
        required = {"UPDATE": ("object", "oldObject"), "DELETE": ("oldObject",)}.get(
            self.operation, ("object",)
        )
        objects = {"object": self.object, "oldObject": self.old_object, "parent": self.parent}
        for name, value in objects.items():
            if name != "parent" and (name in required) != (value is not None):
                raise ValueError(
                    f"{self.operation} {'needs an' if name in required else 'has no'} {name}"
                )
            for key in ("apiVersion", "kind"):
                if value is not None and not isinstance(value.get(key), str):
                    raise ValueError(f"{name} has no {key}")
            if value is not None and not isinstance(value.get("metadata", {}), dict):
                raise ValueError(f"{name}.metadata is not a mapping")
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


class _Written(_Strict):
    """A case as it is written. `settings` are checked as in a file of their own."""

    name: str = Field(min_length=1)
    intent: str = Field(min_length=1)
    settings: Any = None
    namespace: Namespace | None = None
    data: dict[str, Any] = {}
    exceptions: list[ExceptionSpec] = []
    request: Request
    expect: Expect


@dataclass(frozen=True)
class Case:
    """One case. `settings` are complete; `given` has those of the file, which differ from the
    defaults. `data` is what OPA has besides, at the top of its data, and `exceptions` are those of
    the namespace. `path` and `line` are where it begins.
    """

    name: str
    intent: str
    settings: Settings
    given: Mapping[str, Any]
    namespace: Namespace | None
    request: Request
    expect: Expect
    path: Path
    line: int
    data: Mapping[str, Any] = field(default_factory=dict)
    exceptions: tuple[PolicyException, ...] = ()

    def review(self) -> dict[str, Any]:
        """The AdmissionReview that an API server would send."""
        request = self.request
        return admission_reviews.build(
            request.manifest,
            operation=request.operation,
            namespace=self.namespace.name if self.namespace else None,
            old=request.old_object,
            user=request.user_info,
            sub_resource=request.sub_resource,
            parent=request.parent,
            dry_run=request.dry_run,
        )


PLACEMENT = "placement"
"""Stands in place of an intent in cases of placement over clusters, which placement_cases reads."""
_SUFFIXES = (".yaml", ".yml")


def load(path: Path | None = None, policies: PolicySet | None = None) -> list[Case]:
    """Read the cases of a file, or of every *.yaml and *.yml below a folder. If `path` is None,
    they are those in testdata/cases and in the folders of the policies, for the intents in force.

    `policies` are by default the project's; of their settings, only the folders count, and which
    intents are switched off. The project's own cases know only its own policies: others may refuse
    the same request. Cases of placement over clusters are left out. Raises InputError with file and
    line for an invalid case, and for a name that is used twice, and UsageError if there is no case.
    """
    policies = policies or PolicySet.load(Settings())
    project = (policies.folders[0], policy_files.builtin().resolve(), _shared())
    own = policies.settings.model_copy(update={"policies": []})
    own_intents = policies.files.of(policies.folders[0], []).intents
    cases: list[Case] = []
    is_placement = False
    places: dict[str, str] = {}
    for source in in_path(path) if path is not None else _sources(policies):
        is_own = any(map(source.resolve().is_relative_to, project))
        for document in listed(source):
            if is_of_placement(document):
                is_placement = True
                continue
            case = (
                _case(document, own, own_intents)
                if is_own
                else _case(document, policies.settings, policies.intents)
            )
            if path is None and case.intent in policies.settings.disabled():
                continue
            location = f"{case.path}:{case.line}"
            if case.name in places:
                raise InputError(
                    location,
                    f"the name {case.name!r} is used at {places[case.name]}, too: names are unique",
                )
            places[case.name] = location
            cases.append(case)
    if not (cases or is_placement):
        raise UsageError("no intent in force has a case: write one, or name others with --cases")
    return cases


def require_known(cases: Iterable[Case], policies: PolicySet) -> None:
    """Raises InputError for a case of an intent that none of the policies is, by which no engine
    would decide.
    """
    names = {intent.name for intent in policies.intents}
    for case in cases:
        if case.intent not in names:
            close = difflib.get_close_matches(case.intent, names, 1)
            listed = ", ".join(sorted(names))
            hint = f"did you mean {close[0]!r}?" if close else f"there are {listed}"
            problem = f"intent: there is no intent {case.intent!r}: {hint}"
            raise InputError(case.path, problem, line=case.line)


def _sources(policies: PolicySet) -> list[Path]:
    folders = (path for folder in policies.folders for path in sorted(folder.glob("*/")))
    return list(dict.fromkeys(source for folder in folders for source in of_policy(folder)))


def in_path(path: Path) -> list[Path]:
    """The files with cases in a file or folder: of a folder of policies, those in the folders
    `cases`. Raises InputError if a folder has none.
    """
    if not path.is_dir():
        return [path]
    sources = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
    if any(file.name == intent_file.FILE for file in sources):
        sources = [file for file in sources if "cases" in file.relative_to(path).parts[:-1]]
    if not sources:
        raise InputError(path, "holds no *.yaml file with cases: add one, or name another")
    return sources


def of_policy(folder: Path) -> list[Path]:
    """The files that may have cases of one policy, by its folder: its own, and for a policy beside
    main.rego those of testdata/cases.
    """
    ours = (folder.parent / MAIN).is_file()
    return [*(sorted(_shared().glob("*.yaml")) if ours else ()), *folder.glob("cases/**/*.yaml")]


def _shared() -> Path:
    """The folder of the cases that take several files. `opa test policies` reads YAML in the
    folders of policies, and takes only one list from each.
    """
    return (paths.root() / "testdata" / "cases").resolve()


def is_of_placement(document: yaml_files.Document) -> bool:
    """Whether a listed document is a case of placement over clusters."""
    return isinstance(document.value, dict) and document.value.get("intent") == PLACEMENT


def listed(source: Path) -> list[yaml_files.Document]:
    """The documents of the cases in a file. Raises InputError if it is not a list of some."""
    documents = []
    for document in yaml_files.read_yaml(source):
        if not isinstance(document.value, list) or not isinstance(document.node, yaml.SequenceNode):
            raise InputError(source, "a list of cases is expected", line=document.line(()))
        pairs = zip(document.value, document.node.value, strict=True)
        documents += [yaml_files.Document(source, value, node) for value, node in pairs]
    if not documents:
        raise InputError(source, "is an empty list: add a case")
    return documents


def _case(document: yaml_files.Document, base: Settings, every: Sequence[Intent]) -> Case:
    written = document.parse(_Written)
    part = yaml_files.Document(document.path, written.settings, document.part(["settings"]))
    settings = Settings() if part.value is None else fairlead_yaml.parse(part, every)
    settings = settings.model_copy(
        update={"policies": base.policies, "intents": {**base.disabled(), **settings.intents}}
    )
    return Case(
        name=written.name,
        intent=written.intent,
        settings=settings,
        given=part.value or {},
        namespace=written.namespace,
        request=written.request,
        expect=written.expect,
        path=document.path,
        line=document.line(["name"]) or 1,
        data=written.data,
        exceptions=tuple(
            PolicyException(written.namespace.name if written.namespace else "", f"case-{n}", spec)
            for n, spec in enumerate(written.exceptions, 1)
        ),
    )

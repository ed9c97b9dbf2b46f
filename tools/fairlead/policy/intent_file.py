"""What `intent.yaml` says of an intent. docs/policies.md describes the file.

Values in `requests` may depend on settings and parameters, by references and by `when` and `unless`
(see fairlead.policy.references). `references.in_force` makes requests of them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    WrapValidator,
    field_validator,
    model_validator,
)

from fairlead.common import mistakes, paths, yaml_files
from fairlead.common.errors import InputError
from fairlead.common.mistakes import Location, Mistake, Mistakes
from fairlead.kube import labels
from fairlead.policy import references
from fairlead.policy.requests import SUBRESOURCE, FailurePolicy, Kind, Operation, Phase, parts
from fairlead.settings.models import Settings
from fairlead.settings.strict import LabelKey, Strict

FILE = "intent.yaml"
SCHEMA = "intent.schema.json"
"""The file with the JSON schema, by which editors complete and check an intent.yaml."""


ENGINES = {"cel": "cel.yaml", "gatekeeper": "gatekeeper.yaml", "python": "python.py"}
"""The engines besides OPA that an intent can be written for, and their files in `engines`."""


class _Strict(Strict):
    # The texts below the fields are what editors show.
    model_config = ConfigDict(use_attribute_docstrings=True)


def _tests(value: object) -> object:
    return {value: None} if isinstance(value, str) else value


_Path = Annotated[str, Field(pattern=f"^{references.PATH}$")]
_Tests = Annotated[
    dict[_Path, Any], BeforeValidator(_tests, json_schema_input_type=_Path | dict[_Path, Any])
]


class _Conditional(_Strict):
    when: _Tests = {}
    """Only if this setting or parameter is there, and neither false, 0 nor empty; or, as a mapping,
    only if each has the value, or one of the list."""
    unless: _Tests = {}
    """The opposite of `when`."""


def _or_reference(value: str, check: Any) -> str:
    return value if any(references.paths(value)) else check(value)


_Key = Annotated[str, AfterValidator(lambda value: _or_reference(value, labels.check_key))]
_Value = Annotated[str, AfterValidator(lambda value: _or_reference(value, labels.check_value))]


class WrittenExpression(_Conditional):
    """A requirement of a label selector, as in Kubernetes."""

    key: _Key
    """A label's key, such as `team` or `$(settings.namespaceLabel)`."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[_Value] = []
    """For In and NotIn. A reference stands for the items of a list, or the keys of a mapping."""


class WrittenSelector(_Strict):
    """A label selector, as in Kubernetes."""

    match_labels: dict[_Key, _Value] = {}
    match_expressions: list[WrittenExpression] = []


class Alternative(_Conditional):
    """One of several expressions in CEL, one of which has to be true."""

    expression: str = Field(min_length=1)


def _alternative(value: object) -> object:
    return {"expression": value} if isinstance(value, str) else value


class WrittenCondition(_Conditional):
    """A match condition of a webhook: OPA is not asked about requests for which it is false."""

    name: str = Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    operations: list[Operation] = []
    """Those of the requests that it is about; all if there are none."""
    expression: str | None = Field(None, min_length=1)
    """In CEL, of `object`, `oldObject` and `request`. A reference stands for a literal."""
    any_of: list[
        Annotated[
            Alternative, BeforeValidator(_alternative, json_schema_input_type=str | Alternative)
        ]
    ] = []
    """In place of `expression`: several, one of which has to be true."""

    @model_validator(mode="after")
    def _one_form(self) -> WrittenCondition:
        if (self.expression is None) != bool(self.any_of):
            raise ValueError(f"condition {self.name}: write either `expression` or `anyOf`")
        return self


def _kind(value: object, validate: Any) -> Any:
    return value if references.is_reference(value) else validate(parts(value))


class WrittenRequest(_Conditional):
    """Requests that an intent has a say in. They are there only `when` the settings say so."""

    name: str | None = Field(None, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)
    """Its webhook is `<name>.<intent>.fairlead.dev`; one request of an intent has no name."""
    kinds: list[Annotated[Kind, WrapValidator(_kind, json_schema_input_type=str | Kind)]] = Field(
        min_length=1
    )
    """Such as `v1/Pod`, `apps/v1/Deployment/scale`, or a mapping; a reference stands for a list."""
    subresource: str | None = Field(None, pattern=SUBRESOURCE)
    """That of each of the kinds, such as `status`, in place of the kinds themselves."""
    operations: list[Operation] = Field(min_length=1)
    namespaces: WrittenSelector = WrittenSelector()
    """The namespaces, by their labels; all unless you say so."""
    conditions: list[WrittenCondition] = []
    webhooks: list[Phase] = Field(["validating"], min_length=1)
    """`mutating` if the intent patches objects, `validating` if it refuses them; both if it also
    checks what other webhooks made of its patch."""
    final_state: list[WrittenCondition] = []
    """With both: further conditions of that check, which find out whether the object is still as
    the policy left it. The policy itself has to write into each object what they read."""
    failure_policy: FailurePolicy | None = None
    """In place of the settings' failurePolicy, for requests that it never refuses."""
    timeout_seconds: int | None = Field(None, ge=1, le=30)
    """In place of the settings' timeoutSeconds."""

    @model_validator(mode="after")
    def _conditions_concern_it(self) -> WrittenRequest:
        for condition in (*self.conditions, *self.final_state):
            if strange := [
                operation for operation in condition.operations if operation not in self.operations
            ]:
                raise ValueError(
                    f"condition {condition.name} is about {', '.join(strange)}, but the operations "
                    f"of these requests are {', '.join(self.operations)}"
                )
        if self.final_state and {*self.webhooks} != {"mutating", "validating"}:
            raise ValueError("finalState: only requests with both webhooks are asked about twice")
        return self

    @property
    def kind_names(self) -> set[str] | None:
        """The names of its kinds, such as Pod; None if settings or parameters decide."""
        kinds: list[Kind | str] = [*self.kinds]
        if any(isinstance(kind, str) for kind in kinds):
            return None
        return {kind.kind for kind in kinds if isinstance(kind, Kind)}


class Facts(_Strict):
    """What Fairlead has to know of an intent beside its Rego."""

    requests: list[WrittenRequest] = Field(min_length=1)
    """The requests that it has a say in. From them, Fairlead makes its webhooks."""
    enabled: bool = True
    """Whether it is in force without being named in fairlead.yaml."""
    decides_on_namespaces: bool = False
    """Whether the policy itself finds out which namespaces it applies to."""
    namespace_labels: list[LabelKey] = []
    """Further labels of namespaces that the policy reads."""
    parameters: dict[str, Any] = {}
    """The JSON Schema of its parameters: `properties`, each with a type, a description, and a
    default or examples."""
    written_for: list[Literal["cel", "gatekeeper", "python"]] = []
    """The engines besides OPA that it is written for, in the folder `engines`."""

    @field_validator("parameters")
    @classmethod
    def _is_schema(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            Draft202012Validator.check_schema(value)
        except SchemaError as error:
            location = ("parameters", *error.absolute_path)
            text = f"{mistakes.path(location)} is not JSON Schema: {error.message}"
            raise Mistakes([Mistake(location, text)]) from error
        return value

    @property
    def parameters_schema(self) -> dict[str, Any]:
        """The JSON Schema of its parameters as a whole."""
        return {"type": "object", "additionalProperties": False, **self.parameters}


def read(document: yaml_files.Document) -> Facts:
    """What a document says. Raises InputError with every mistake and its line."""
    _require_none(document, _jinja(document))
    facts = document.parse(Facts)
    _require_none(document, _undeclared(document, facts))
    return facts


def json_schema() -> str:
    """The text of the JSON schema of the file."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Facts.model_json_schema(),
        "title": "intent.yaml of a policy of Fairlead",
    }
    return json.dumps(document, indent=2) + "\n"


def schema_path(folder: Path) -> Path:
    """Where the JSON schema is for a folder of policies: in it, or among the project's schemas."""
    if folder.resolve() == (paths.root() / "policies").resolve():
        return paths.root() / "tools" / "schemas" / SCHEMA
    return folder / SCHEMA


@functools.cache
def _settings_schema() -> Mapping[str, Any]:
    return Settings.model_json_schema()


def _require_none(document: yaml_files.Document, problems: Iterable[tuple[Location, str]]) -> None:
    """Raises InputError if there are problems, each with its line."""
    listed = sorted(
        (document.line(location) or 0, f"{mistakes.path(location)}: {problem}")
        for location, problem in problems
    )
    if listed:
        (line, text), *further = listed
        raise InputError(document.path, text, line=line, further=further)


def _jinja(document: yaml_files.Document) -> Iterator[tuple[Location, str]]:
    """The texts that earlier versions would have evaluated."""
    for location, text in _texts(document.value):
        if "{{" in text or "{%" in text:
            yield (
                location,
                "Jinja2 expressions are not evaluated here: write a reference such as "
                "$(parameters.team), or `when` or `unless`; see docs/policies.md",
            )


def _undeclared(document: yaml_files.Document, facts: Facts) -> Iterator[tuple[Location, str]]:
    """The paths that settings and parameters do not have, each with where it stands."""
    schemas = {"settings": _settings_schema(), "parameters": facts.parameters_schema}
    for location, text in _texts(document.value):
        try:
            paths_in_text = [text] if _is_path(location, text) else list(references.paths(text))
        except ValueError as error:
            yield location, str(error)
            continue
        for path in paths_in_text:
            if problem := references.undeclared(path, schemas):
                yield location, problem


def _is_path(location: Location, text: str) -> bool:
    """Whether a text is a path in `when` or `unless`: all of it, or the key of a mapping there."""
    is_key = text == location[-1]
    return (
        location[-2 if is_key and len(location) > 1 else -1] in references.TESTS
        and text not in references.TESTS
    )


def _texts(value: Any, location: Location = ()) -> Iterator[tuple[Location, str]]:
    """All texts and keys, each with where it stands, but for those of the parameters' schema."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield (*location, key), str(key)
            if (*location, key) != ("parameters",):
                yield from _texts(part, (*location, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _texts(part, (*location, index))
    elif isinstance(value, str):
        yield location, value

"""The intents: what the METADATA of a policy's package says about it. docs/policies.md describes
the fields.

A folder of policies holds one folder for each intent, named like its package. The METADATA stand in
`<package>/<package>.rego`, under `custom`.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from jinja2 import StrictUndefined, TemplateError, Undefined, UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from fairlead.common import files, mistakes, paths
from fairlead.common.errors import InputError
from fairlead.kube import admission_reviews
from fairlead.settings.strict import STRICT, LabelKey, LabelValue

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_BLOCK = re.compile(r"^# METADATA\n((?:#.*\n)+)(?:#.*\n|\s)*?package\s+([\w.]+)", re.MULTILINE)
# Kubernetes' own API groups without a domain. Their plurals, and those of *.k8s.io, follow a rule.
OWN_GROUPS = ("", "apps", "autoscaling", "batch", "policy")


class _Strict(BaseModel):
    model_config = STRICT


def _parts(value: object) -> object:
    """`apps/v1/Deployment` as a mapping; a group that is left out is the core group."""
    if not isinstance(value, str):
        return value
    if "/" not in value:
        raise ValueError(f"{value!r} has no version: write v1/Pod or apps/v1/Deployment, say")
    *group, version, kind = value.rsplit("/", 2)
    return {"group": "".join(group), "version": version, "kind": kind}


class Kind(_Strict):
    """A kind of objects, written `apps/v1/Deployment` or `v1/Pod`, or as a mapping.

    `resource` is the name in URLs, which is the plural of the kind unless it is given. With a
    `subresource`, `kind` is the kind of the objects that are sent to it, such as `Scale`, and
    `resource` is needed.
    """

    group: str = ""
    version: str = Field(pattern=r"^v[0-9]+([a-z]+[0-9]+)?$")
    kind: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$")
    resource: str | None = Field(None, pattern=r"^[a-z][-a-z0-9.]*$")
    subresource: str | None = Field(None, pattern=r"^[a-z]+$")

    @model_validator(mode="after")
    def _resource_known(self) -> Kind:
        ours = self.group in OWN_GROUPS or self.group.endswith(".k8s.io")
        if self.resource is None and (self.subresource or not ours):
            raise ValueError(
                f"{self.kind} needs its resource (see kubectl api-resources): write {{group: "
                f"{self.group}, version: {self.version}, kind: {self.kind}, resource: NAME}}"
            )
        return self

    @property
    def resources(self) -> str:
        """The resource with its subresource, as in a webhook's rule."""
        below = f"/{self.subresource}" if self.subresource else ""
        return (self.resource or admission_reviews.plural(self.kind)) + below

    @property
    def path(self) -> str:
        """How policies/intents.rego names the kind: `group/Kind`, with the subresource if any."""
        return "/".join(filter(None, (f"{self.group}/{self.kind}", self.subresource)))


class Expression(_Strict):
    """A label selector's requirement, as in Kubernetes' meta/v1."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[LabelValue] = []

    @model_validator(mode="after")
    def _values_where_needed(self) -> Expression:
        if (self.operator in ("In", "NotIn")) != bool(self.values):
            raise ValueError(f"operator {self.operator} has {len(self.values)} values")
        return self

    def document(self) -> dict[str, Any]:
        """The requirement as in a manifest."""
        return self.model_dump(exclude_defaults=True)


class Selector(_Strict):
    """A label selector, as in Kubernetes' meta/v1."""

    match_labels: dict[LabelKey, LabelValue] = {}
    match_expressions: list[Expression] = []

    @property
    def expressions(self) -> list[Expression]:
        """All requirements as expressions."""
        labels = sorted(self.match_labels.items())
        return [
            *(Expression(key=key, operator="In", values=[value]) for key, value in labels),
            *self.match_expressions,
        ]


class Condition(_Strict):
    """A webhook's matchCondition: a CEL expression that has to be true."""

    name: str = Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    expression: str = Field(min_length=1)


class Request(_Strict):
    """Requests that an intent has a say in.

    `webhooks` says who asks about them: a mutating webhook if the intent patches objects, a
    validating one if it refuses them, and both if it also checks what other webhooks made of its
    patch. `failure_policy` and `timeout_seconds` override the settings', for requests that it never
    refuses. `when` is false if the settings leave nothing to decide.
    """

    name: str | None = Field(None, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    kinds: list[Annotated[Kind, BeforeValidator(_parts)]] = Field(min_length=1)
    operations: list[Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]] = Field(min_length=1)
    namespaces: Selector = Selector()
    conditions: list[Condition] = []
    webhooks: list[Literal["mutating", "validating"]] = Field(["validating"], min_length=1)
    failure_policy: Literal["Fail", "Ignore"] | None = None
    timeout_seconds: int | None = Field(None, ge=1, le=30)
    when: bool = True


class Metadata(_Strict):
    """What Fairlead reads of the METADATA of an intent's package.

    Texts in `requests` may hold Jinja2 expressions of `settings` (as in fairlead.yaml) and
    `parameters`. `decides_on_namespaces` means that the policy itself finds out which namespaces it
    applies to; otherwise only namespaces that `requests` select are brought before it.
    `namespace_labels` are further labels of namespaces that it reads. `parameters` is the JSON
    Schema of its parameters.
    """

    requests: list[dict[str, Any]] = Field(min_length=1)
    decides_on_namespaces: bool = False
    namespace_labels: list[LabelKey] = []
    parameters: dict[str, Any] = {}


@dataclass(frozen=True)
class Intent:
    """An intent, by its package's METADATA. `source` names its module in messages."""

    name: str
    title: str
    description: str
    metadata: Metadata
    source: str
    line: int

    @property
    def package(self) -> str:
        """The name of its package and its folder."""
        return self.name.replace("-", "_")

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that were given, with the defaults of their schema. Raises ValueError that
        names the first mistake.
        """
        schema = {"type": "object", "additionalProperties": False, **self.metadata.parameters}
        parameters = _with_defaults(schema, dict(given))
        problem = best_match(Draft202012Validator(schema).iter_errors(parameters))
        if problem is not None:
            where = "".join(f".{part}" for part in problem.absolute_path)
            raise ValueError(f"parameters{where}: {problem.message}")
        return dict(parameters)

    def requests(self, settings: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[Request]:
        """The requests that it has a say in, under these settings. Raises InputError."""
        rendered = []
        for number, raw in enumerate(self.metadata.requests, 1):
            try:
                values = _rendered(raw, {"settings": settings, "parameters": parameters})
                request = Request.model_validate({**values, "when": bool(values.get("when", True))})
            except ValidationError as error:
                message = mistakes.of(error, Request, values)[0].text
                raise InputError(
                    self.source, f"METADATA: request {number}: {message}", line=self.line
                ) from error
            except TemplateError as error:
                raise InputError(
                    self.source, f"METADATA: request {number}: {error}", line=self.line
                ) from error
            if request.when:
                rendered.append(request)
        return rendered


def of_module(text: str, source: str) -> Intent | None:
    """The intent that a module's METADATA describe; None if they describe none. Raises InputError.

    A module that declares no requests is a library of policies.
    """
    block = _BLOCK.search(text)
    if block is None:
        return None
    line = text.count("\n", 0, block.start()) + 1
    try:
        annotations = yaml.safe_load(re.sub(r"^# ?", "", block[1], flags=re.MULTILINE))
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise InputError(source, f"METADATA: is not valid YAML: {problem}", line=line) from error
    custom = annotations.get("custom") if isinstance(annotations, dict) else None
    if not isinstance(custom, dict):
        return None
    known = {to_camel(name): name for name in Metadata.model_fields}
    for key in custom:
        if key not in known and (close := difflib.get_close_matches(str(key), known, 1, 0.8)):
            raise InputError(
                source, f"METADATA: unknown key custom.{key}: did you mean {close[0]!r}?", line=line
            )
    if "requests" not in custom:
        return None
    try:
        metadata = Metadata.model_validate({k: v for k, v in custom.items() if k in known})
        Draft202012Validator.check_schema(metadata.parameters)
    except ValidationError as error:
        message = mistakes.of(error, Metadata, custom)[0].text
        raise InputError(source, f"METADATA: custom.{message}", line=line) from error
    except SchemaError as error:
        raise InputError(
            source, f"METADATA: custom.parameters is no JSON Schema: {error.message}", line=line
        ) from error
    return Intent(
        name=block[2].split(".")[-1].replace("_", "-"),
        title=str(annotations.get("title", "")),
        description=str(annotations.get("description", "")).strip(),
        metadata=metadata,
        source=source,
        line=line,
    )


def builtin_folder() -> Path:
    """The folder of the project's own policies."""
    return paths.root() / "policies"


def in_folder(folder: Path) -> list[Intent]:
    """The intents of a folder of policies, by name. Raises InputError."""
    found = (
        of_module(files.read_text(module), str(module))
        for path in sorted(folder.iterdir())
        if path.is_dir() and _NAME.fullmatch(path.name)
        if (module := path / f"{path.name}.rego").is_file()
    )
    return [intent for intent in found if intent is not None]


def _with_defaults(schema: Mapping[str, Any], value: Any) -> Any:
    """`value` with the defaults of the properties that it lacks."""
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    filled = {
        name: below["default"]
        for name, below in properties.items()
        if isinstance(below, dict) and "default" in below
    } | value
    return {name: _with_defaults(properties.get(name, {}), part) for name, part in filled.items()}


def _rendered(value: Any, names: Mapping[str, Any]) -> Any:
    """`value` with the expressions in its texts evaluated. A text that is one expression becomes
    its value, and items of lists that become None are left out. Raises TemplateError.
    """
    if isinstance(value, dict):
        return {key: _rendered(part, names) for key, part in value.items()}
    if isinstance(value, list):
        items = [_rendered(item, names) for item in value]
        return [item for item in items if item is not None]
    if not isinstance(value, str) or "{" not in value:
        return value
    text = value.strip()
    if text.startswith("{{") and text.endswith("}}") and "{{" not in text[2:]:
        result = _templates().compile_expression(text[2:-2], undefined_to_none=False)(**names)
        if isinstance(result, Undefined):
            raise UndefinedError(f"{text} has no value: for none, write `else none`")
        return result
    return _templates().from_string(value).render(names)


@functools.cache
def _templates() -> ImmutableSandboxedEnvironment:
    """Expressions run in a sandbox, because they also come out of a cluster's ConfigMaps."""
    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)

"""The intents: what the METADATA of a policy's package says about it. docs/policies.md describes
the fields.

A folder of policies holds one folder for each intent, named like its package. The METADATA stand in
`<package>/<package>.rego`, under `custom`.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from jinja2 import (
    StrictUndefined,
    TemplateError,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
    nodes,
)
from jinja2.environment import Template, TemplateExpression
from jinja2.runtime import Context
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
from referencing import Registry
from referencing.exceptions import Unresolvable

from fairlead.common import files, mistakes, paths
from fairlead.common.errors import InputError
from fairlead.common.mistakes import Mistake
from fairlead.kube import admission_reviews
from fairlead.settings.first_webhooks import FIRST_WEBHOOKS
from fairlead.settings.selectors import Selector
from fairlead.settings.services import SERVICES
from fairlead.settings.strict import STRICT, LabelKey

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_BLOCK = re.compile(r"^# METADATA\n((?:#.*\n)+)(?:#.*\n|\s)*?package\s+([\w.]+)", re.MULTILINE)
_WRITTEN = re.compile(
    r"(?:(?P<group>[^/]*)/)?(?P<version>v[0-9][^/]*)/(?P<kind>[^/]+)(?:/(?P<subresource>[^/]+))?"
)
# The names of an intent are labels and annotations of Kubernetes, of 63 characters.
_LONGEST = 63
# What a mistake in an expression raises besides Jinja2's own errors.
_MISTAKES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_TAKEN = {
    *("data", "input", "fairlead_confirmed", "kubernetes", "system"),
    *(service.root for service in SERVICES),
    *("as", "contains", "default", "else", "every", "false", "if", "import", "in", "not", "null"),
    *("package", "some", "true", "with"),
}
# Kubernetes' own API groups without a domain. Their plurals, and those of *.k8s.io, follow a rule.
OWN_GROUPS = ("", "apps", "autoscaling", "batch", "policy")


class _Strict(BaseModel):
    model_config = STRICT


# The kinds of the objects that are sent to subresources, with their groups. Others take the object
# that they belong to, such as a pod's status.
_SENT = {
    "attach": ("", "PodAttachOptions"),
    "binding": ("", "Binding"),
    "eviction": ("policy", "Eviction"),
    "exec": ("", "PodExecOptions"),
    "portforward": ("", "PodPortForwardOptions"),
    "scale": ("autoscaling", "Scale"),
    "token": ("authentication.k8s.io", "TokenRequest"),
}


def _parts(value: object) -> object:
    """`apps/v1/Deployment` and `apps/v1/Deployment/scale` as a mapping; a group that is left out is
    the core group.
    """
    if not isinstance(value, str):
        return value
    match = _WRITTEN.fullmatch(value)
    if match is None:
        raise ValueError(
            f"{value!r} has no version: write v1/Pod or apps/v1/Deployment, say"
            if "/" not in value
            else f"{value!r} is not a version and a kind: write v1/Pod or apps/v1/Deployment, say"
        )
    return {name: part for name, part in match.groupdict().items() if part}


class Kind(_Strict):
    """A kind of objects, written `apps/v1/Deployment` or `v1/Pod`, or as a mapping.

    `resource` is the name in URLs, which is the plural of the kind unless it is given. A
    `subresource` is one of these objects, such as their `scale` or `status`.
    """

    group: str = ""
    version: str = Field(pattern=r"^v[0-9]+([a-z]+[0-9]+)?$")
    kind: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$")
    resource: str | None = Field(None, pattern=r"^[a-z][-a-z0-9.]*$")
    subresource: str | None = Field(None, pattern=r"^[a-z]+$")

    @model_validator(mode="after")
    def _legal(self) -> Kind:
        ours = self.group in OWN_GROUPS or self.group.endswith(".k8s.io")
        if self.resource is None and not ours:
            raise ValueError(
                f"{self.kind} needs its resource (see kubectl api-resources): write {{group: "
                f"{self.group}, version: {self.version}, kind: {self.kind}, resource: NAME}}"
            )
        if (self.group, self.kind) in _SENT.values():
            raise ValueError(
                f"{self.kind} is what is sent to a subresource: write the kind that has it, such "
                "as apps/v1/Deployment/scale"
            )
        return self

    @property
    def resources(self) -> str:
        """The resource with its subresource, as in a webhook's rule."""
        below = f"/{self.subresource}" if self.subresource else ""
        return (self.resource or admission_reviews.plural(self.kind)) + below

    @property
    def path(self) -> str:
        """What is sent, as policies/intents.rego names it: `group/Kind[/subresource]`."""
        sent = _SENT.get(self.subresource or "", (self.group, self.kind))
        return "/".join(filter(None, ("/".join(sent), self.subresource)))


Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class Condition(_Strict):
    """A webhook's matchCondition: a CEL expression that has to be true, of requests with these
    operations; of all requests if there are none.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    operations: list[Operation] = []
    expression: str = Field(min_length=1)

    def concerns(self, operation: Operation) -> bool:
        """Whether requests with this operation have to meet it."""
        return not self.operations or operation in self.operations

    def manifest(self, operations: Sequence[Operation]) -> dict[str, str]:
        """The matchCondition in something that matches these operations."""
        expression = self.expression.strip()
        others = [each for each in operations if not self.concerns(each)]
        if others:
            choices = [*(f"request.operation == '{each}'" for each in others), f"({expression})"]
            expression = " || ".join(choices)
        return {"name": self.name, "expression": expression}


class Request(_Strict):
    """Requests that an intent has a say in.

    `webhooks` says who asks about them: a mutating webhook if the intent patches objects, a
    validating one if it refuses them, and both if it also checks what other webhooks made of its
    patch. `failure_policy` and `timeout_seconds` override the settings', for requests that it never
    refuses. `when` is false if the settings leave nothing to decide.
    """

    name: str | None = Field(None, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)
    kinds: list[Annotated[Kind, BeforeValidator(_parts)]] = Field(min_length=1)
    operations: list[Operation] = Field(min_length=1)
    namespaces: Selector = Selector()
    conditions: list[Condition] = []
    webhooks: list[Literal["mutating", "validating"]] = Field(["validating"], min_length=1)
    failure_policy: Literal["Fail", "Ignore"] | None = None
    timeout_seconds: int | None = Field(None, ge=1, le=30)
    when: bool = True

    @model_validator(mode="after")
    def _conditions_concern_it(self) -> Request:
        for condition in self.conditions:
            if strange := [each for each in condition.operations if each not in self.operations]:
                raise ValueError(
                    f"condition {condition.name} is about {', '.join(strange)}, but the operations "
                    f"of these requests are {', '.join(self.operations)}"
                )
        return self


class Metadata(_Strict):
    """What Fairlead reads of the METADATA of an intent's package.

    Texts in `requests` may hold Jinja2 expressions of `settings` (as in fairlead.yaml) and
    `parameters`. `decides_on_namespaces` means that the policy itself finds out which namespaces it
    applies to; otherwise only namespaces that `requests` select are brought before it.
    `namespace_labels` are further labels of namespaces that it reads. `parameters` is the JSON
    Schema of its parameters. An intent that is not `enabled` is in force only if the settings name
    it.
    """

    requests: list[dict[str, Any]] = Field(min_length=1)
    enabled: bool = True
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
        problems = self.problems(given)
        if problems:
            raise ValueError(problems[0].text)
        return dict(_with_defaults(self.schema, dict(given)))

    def problems(self, given: Mapping[str, Any]) -> list[Mistake]:
        """What is wrong with parameters; locations begin with `parameters`."""
        parameters = _with_defaults(self.schema, dict(given))
        # With a registry of its own, jsonschema fetches no schema from elsewhere.
        validator = Draft202012Validator(self.schema, registry=Registry())
        try:
            errors = sorted(
                validator.iter_errors(parameters), key=lambda error: str(error.absolute_path)
            )
        except (Unresolvable, RecursionError) as error:
            text = (
                f"their schema in {self.source} refers to another one that is not in it ({error})"
            )
            return [Mistake(("parameters",), f"parameters: {text}")]
        problems = []
        for violation in errors:
            details = best_match([violation])
            location = ("parameters", *details.absolute_path)
            problems.append(Mistake(location, f"{mistakes.path(location)}: {details.message}"))
        return problems

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its parameters as a whole."""
        return {"type": "object", "additionalProperties": False, **self.metadata.parameters}

    def example(self) -> dict[str, Any]:
        """Parameters with which the intent can be in force: for those without a default, the first
        of their examples. Raises InputError if they do not satisfy the schema.
        """
        properties = self.metadata.parameters.get("properties", {})
        given = {
            name: schema["examples"][0]
            for name, schema in properties.items()
            if "default" not in schema and schema.get("examples")
        }
        try:
            return self.parameters(given)
        except ValueError as error:
            message = f"METADATA: the defaults and examples of {error}"
            raise InputError(self.source, message, line=self.line) from error

    def requests(self, settings: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[Request]:
        """The requests that it has a say in, under these settings. Raises InputError."""
        requests = []
        for number, raw in enumerate(self.metadata.requests, 1):
            try:
                values = rendered(raw, {"settings": settings, "parameters": parameters})
                request = Request.model_validate({**values, "when": bool(values.get("when", True))})
            except ValidationError as error:
                message = mistakes.of(error, Request, values)[0].text
                raise InputError(
                    self.source, f"METADATA: request {number}: {message}", line=self.line
                ) from error
            except (TemplateError, *_MISTAKES) as error:
                problem = " ".join(str(error).split())[:200]
                raise InputError(
                    self.source, f"METADATA: request {number}: {problem}", line=self.line
                ) from error
            if request.when:
                requests.append(request)
        return requests


@dataclass(frozen=True)
class PackageMetadata:
    """The METADATA of a module's package: the annotations as they are written, the `package`, and
    the line where they begin.
    """

    annotations: Mapping[str, Any]
    package: str
    line: int


def metadata_of(text: str, source: str) -> PackageMetadata | None:
    """The METADATA of a module's package, or None. Raises InputError for what is no YAML."""
    block = _BLOCK.search(text)
    if block is None:
        return None
    line = text.count("\n", 0, block.start()) + 1
    try:
        annotations = files.yaml_value(re.sub(r"^# ?", "", block[1], flags=re.MULTILINE))
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise InputError(source, f"METADATA: is not valid YAML: {problem}", line=line) from error
    written = annotations if isinstance(annotations, dict) else {}
    return PackageMetadata(written, block[2], line)


@functools.lru_cache(maxsize=1024)  # a command asks several times about the same modules
def of_module(text: str, source: str) -> Intent | None:
    """The intent that a module's METADATA describe; None if they describe none. Raises InputError.

    A module that declares no requests is a library of policies.
    """
    described = metadata_of(text, source)
    if described is None:
        return None
    annotations, line = described.annotations, described.line
    custom = annotations.get("custom")
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
        name=described.package.split(".")[-1].replace("_", "-"),
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
    found = []
    for path in sorted(folder.iterdir()):
        module = path / f"{path.name}.rego"
        if path.is_dir() and module.is_file():
            intent = of_module(files.read_text(module), str(module))
            if intent is not None:
                if problem := name_problem(path.name):
                    raise InputError(module, problem, line=intent.line)
                found.append(intent)
    return found


def name_problem(package: str) -> str | None:
    """Why no policy can have this package, and so a folder of this name; None if it can."""
    if not _NAME.fullmatch(package):
        return (
            f"{package!r} cannot name a policy: use lower-case words joined by '_', such as "
            "replica_limits"
        )
    if len(package) > _LONGEST:
        return f"the name has {len(package)} characters: choose one of at most {_LONGEST}"
    if package in _TAKEN:
        return f"{package!r} has a meaning of its own in Rego or in OPA's data: choose another name"
    if package.replace("_", "-") in FIRST_WEBHOOKS:
        return f"{package!r} is the name of something of Fairlead's own: choose another one"
    return None


def _with_defaults(schema: Mapping[str, Any], value: Any) -> Any:
    """`value` with the defaults of the properties that it lacks."""
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_with_defaults(items, item) for item in value] if isinstance(items, dict) else value
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    filled = {
        name: below["default"]
        for name, below in properties.items()
        if isinstance(below, dict) and "default" in below
    } | value
    return {name: _with_defaults(properties.get(name, {}), part) for name, part in filled.items()}


def rendered(value: Any, names: Mapping[str, Any]) -> Any:
    """`value` with the expressions in its texts evaluated. A text that is one expression becomes
    its value, and items of lists that become None are left out. Raises TemplateError.
    """
    if isinstance(value, dict):
        return {key: rendered(part, names) for key, part in value.items()}
    if isinstance(value, list):
        items = [rendered(item, names) for item in value]
        return [item for item in items if item is not None]
    if not isinstance(value, str) or "{" not in value:
        return value
    text = value.strip()
    if text.startswith("{{") and text.endswith("}}") and "{{" not in text[2:]:
        result = _expression(text[2:-2])(**names)
        if isinstance(result, Undefined):
            raise UndefinedError(f"{text} has no value: for none, write `else none`")
        return result
    return _template(value).render(names)


@functools.cache
def _expression(text: str) -> TemplateExpression:
    return _templates().compile_expression(text, undefined_to_none=False)


@functools.cache
def _template(text: str) -> Template:
    return _templates().from_string(text)


class _Expressions(ImmutableSandboxedEnvironment):
    """Expressions in a sandbox, because they also come out of a cluster's ConfigMaps. Each ends
    soon: there are no loops and macros, no powers, no repeated texts and no padding.
    """

    intercepted_binops = frozenset(["*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False)
        self.globals.clear()
        self.filters = {name: self.filters[name] for name in _FILTERS}

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator != "**" and all(isinstance(side, int | float) for side in (left, right)):
            return super().call_binop(context, operator, left, right)
        raise TypeError(f"the operator {operator} cannot stand here: texts would grow without end")

    def is_safe_callable(self, obj: Any) -> bool:
        if isinstance(obj, Undefined):  # calling it says what is not defined
            return True
        return getattr(obj, "__name__", None) in _METHODS and super().is_safe_callable(obj)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        if any(template.find(kind) for kind in _STATEMENTS):
            raise TemplateSyntaxError("only expressions and `if` can stand here", 1)
        return template


_FILTERS = (
    *("abs", "count", "d", "default", "dictsort", "first", "float", "int", "items", "join"),
    *("last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace"),
    *("reverse", "round", "select", "selectattr", "sort", "string", "sum", "tojson", "trim"),
    *("unique", "upper"),
)
_STATEMENTS: tuple[type[nodes.Stmt], ...] = (
    *(nodes.For, nodes.Macro, nodes.CallBlock),
    *(nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends),
)
_METHODS = ("endswith", "get", "items", "keys", "lower", "split", "startswith", "upper", "values")


@functools.cache
def _templates() -> _Expressions:
    return _Expressions()

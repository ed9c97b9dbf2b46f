"""What policies in CEL say about an instance of an intent, whatever kinds of objects they become:
admission policies of API servers (manifests.py), or those of Kyverno."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fairlead.common.errors import UsageError
from fairlead.deployment import webhooks
from fairlead.engines.cel import definition as definitions
from fairlead.engines.cel import exception_conditions, literals, specialised
from fairlead.engines.cel.definition import Definition, Mutation, Validation, Variable
from fairlead.engines.cel.expressions import parse
from fairlead.engines.cel.folding import Known
from fairlead.kube import pod_templates
from fairlead.policy.instances import Instance
from fairlead.policy.requests import Request
from fairlead.settings.models import Settings

_LONGEST = 4096
"""Characters of a message, as in main.rego. An API server drops one with more than 5 KiB."""
_NAME = Variable(
    name="objectName",
    expression=(
        "request.operation == 'CREATE' && object.metadata.?generateName.orValue('') != '' "
        "&& object.metadata.?name.orValue('').matches('^(.*[2456789bcdfghjklmnpqrstvwxz]{5})?$') "
        "&& size(object.metadata.?name.orValue('')) in [0, 63, size(object.metadata.generateName)"
        " + 5] ? object.metadata.generateName + '*' : object.metadata.name"
    ),
)
"""The object's name in messages, as in policies/review/review.rego: the prefix with a `*` if the
name is generated.
"""
_DENY = ("Deny",)
_WARN = ("Warn",)
_WARN_AND_AUDIT = ("Warn", "Audit")

_Part = TypeVar("_Part", Validation, Mutation)
_Spec = tuple[str, tuple[str, ...], dict[str, Any]]


@dataclass(frozen=True)
class Policy:
    """A policy about one request of an instance.

    `name` has no revision. `actions` are what happens if a validation is false, and empty if the
    policy mutates. `spec` has the fields that API servers' admission policies and those of Kyverno
    have in common; its expressions read the parameters as `params`. `timeout_seconds` is how long
    an API server waits for a program that evaluates it.
    """

    name: str
    actions: tuple[str, ...]
    timeout_seconds: int
    spec: dict[str, Any]

    @property
    def mutates(self) -> bool:
        """Whether the policy changes objects; otherwise it refuses them or warns."""
        return not self.actions

    @property
    def reads_parameters(self) -> bool:
        """Whether its expressions read `params`, because they are too large to stand in them."""
        spec = {key: value for key, value in self.spec.items() if key != "matchConditions"}
        return any("params" in parse(text).names for text in _expressions(spec))


def of(
    instance: Instance,
    definition: Definition,
    settings: Settings,
    values: Mapping[str, Any],
    *,
    repeated: bool = True,
) -> list[Policy]:
    """The policies of an instance, in order. `values` are its `parameters`.

    If changes are not `repeated` after other webhooks, the policies refuse what those undo. Raises
    UsageError if they cannot.
    """
    try:
        return list(_Instance(instance, definition, settings, values, repeated).policies())
    except RecursionError as error:
        raise UsageError(
            f"intents.{instance.name}: an expression in its {definitions.FILE} has too many parts: "
            "divide it into variables"
        ) from error


def parameters(
    instance: Instance, definition: Definition, document: Mapping[str, Any]
) -> dict[str, Any]:
    """What the expressions see as `params`. `document` are the settings as policies read them."""
    values = dict(instance.parameters)
    if definition.settings:
        own = {**document, "enforcement": instance.enforcement(document["enforcement"])}
        values["settings"] = {key: own[key] for key in definition.settings}
    return values


def require_definitions(engine: str, active: Sequence[Instance]) -> None:
    """Raise UsageError, with the lines of the settings, if intents are not written in CEL."""
    missing = [instance for instance in active if definitions.of(instance.intent) is None]
    if missing:
        raise UsageError(
            "\n".join(
                f"intents.{instance.name}: the engine {engine} cannot enforce it, because "
                f"{instance.intent.name} has no {definitions.FILE}: add it, or switch the intent "
                f"off (`{instance.name}: false`)"
                for instance in missing
            )
        )


@dataclass(frozen=True)
class _Instance:
    instance: Instance
    definition: Definition
    settings: Settings
    values: Mapping[str, Any]
    repeated: bool

    def policies(self) -> Iterator[Policy]:
        warns = self.settings.mode(self.instance.name) == "warn"
        for request in self.instance.requests:
            name = ".".join(filter(None, ("fairlead", self.instance.name, request.name)))
            timeout = request.timeout_seconds or self.settings.timeout_seconds
            matched = self._matched(request)
            for suffix, actions, spec in self._specs(request, self._known(request), warns=warns):
                yield Policy(f"{name}{suffix}", actions, timeout, {**matched, **spec})

    def _known(self, request: Request) -> Known:
        part = "its parameters"
        try:
            parameters = literals.tree(self.values)
            part = "a condition of its requests"
            return specialised.known(request, parameters)
        except ValueError as error:
            raise UsageError(
                f"intents.{self.instance.name}: {part} cannot be written in CEL: {error}"
            ) from error

    def _specs(self, request: Request, known: Known, *, warns: bool) -> Iterator[_Spec]:
        """Of each policy about a request, the end of its name, its actions, and its own fields."""
        failure_policy = self._failure_policy(request)
        mutations = self._mutations(request) if "mutating" in request.webhooks else ()
        if spec := self._mutating(mutations, known):
            yield "", (), {"failurePolicy": failure_policy, **spec}
        refusing = () if request.failure_policy == "Ignore" else self._refusing(request)
        if spec := self._validating(refusing, known):
            actions = _WARN_AND_AUDIT if warns else _DENY
            yield "", actions, {"failurePolicy": "Ignore" if warns else failure_policy, **spec}
        warnings = [*_about(request, self.definition.warnings), *self._about_templates(request)]
        if spec := self._validating(warnings, known):
            yield ".warnings", _WARN, {"failurePolicy": "Ignore", **spec}

    def _matched(self, request: Request) -> dict[str, Any]:
        matched = {
            "namespaceSelector": {"matchExpressions": webhooks.namespaces(request)},
            "resourceRules": list(webhooks.rules(request.operations, request.kinds)),
        }
        conditions = [condition.manifest(request.operations) for condition in request.conditions]
        if self.instance.exceptions:
            conditions.append(
                exception_conditions.condition(self.instance.exceptions, _NAME.expression)
            )
        return {
            "matchConstraints": matched,
            **({"matchConditions": conditions} if conditions else {}),
        }

    def _mutations(self, request: Request) -> list[Mutation]:
        return _about(request, self.definition.mutations)

    def _mutating(self, mutations: Sequence[Mutation], known: Known) -> dict[str, Any]:
        """The fields of a policy that changes objects; none if it would change nothing."""
        fields = {"JSONPatch": "jsonPatch", "ApplyConfiguration": "applyConfiguration"}
        variables, expressions = self._specialised([part.expression for part in mutations], known)
        changes = [
            {
                "patchType": mutation.patch_type,
                fields[mutation.patch_type]: {"expression": expression},
            }
            for mutation, expression in zip(mutations, expressions, strict=True)
            if expression != "[]"
        ]
        fixed = {"reinvocationPolicy": "IfNeeded", "variables": variables, "mutations": changes}
        return fixed if changes else {}

    def _refusing(self, request: Request) -> list[Validation]:
        checks = not self.repeated and {"mutating", "validating"} <= {*request.webhooks}
        undone = self._undone(self._mutations(request)) if checks else ()
        return [*_about(request, self.definition.validations), *undone]

    def _undone(self, mutations: Sequence[Mutation]) -> list[Validation]:
        """What is false of an object whose changes other webhooks have undone."""
        conditions = [mutation.done for mutation in mutations if mutation.done]
        if len(conditions) < len(mutations):
            raise UsageError(
                f"intents.{self.instance.name}: without `done` beside each of the mutations in "
                f"{definitions.FILE}, nothing would refuse objects whose changes other webhooks "
                f"undo: add it, or switch the intent off (`{self.instance.name}: false`)"
            )
        message = (
            f"another webhook has undone what {self.instance.name} adds to the object: make that "
            "webhook leave it alone"
        )
        return [Validation(expression=mutation, message=message) for mutation in conditions]

    def _about_templates(self, request: Request) -> Iterator[Validation]:
        """The warning about workloads whose pods will be refused."""
        expression = self.definition.refused_pods
        kinds = {
            kind.kind
            for kind in request.kinds
            if (kind.group, kind.kind) in pod_templates.TEMPLATES and not kind.subresource
        }
        if expression is None or not kinds:
            return
        will = "would" if self.settings.mode(self.instance.name) == "warn" else "will"
        yield Validation(
            expression=(
                f"!(request.kind.kind in {json.dumps(sorted(kinds))}) || size({expression}) == 0"
            ),
            message_expression=(
                f"({expression}).map(problem, 'every pod of ' + request.kind.kind + ' \"' + "
                f"variables.{_NAME.name} + '\" {will} be refused: ' + problem).sort().join('; ')"
            ),
        )

    def _validating(self, validations: Sequence[Validation], known: Known) -> dict[str, Any]:
        """The fields of a policy that says why each validation is false, of which a refusal has
        only the first reason; none if all are always true.
        """
        conditions = self._specialised([each.expression for each in validations], known)[1]
        checked = [
            each
            for each, condition in zip(validations, conditions, strict=True)
            if condition != "true"
        ]
        reasons = {
            f"fairlead_reason_{number}": _message(each) for number, each in enumerate(checked)
        }
        texts = [self._text(f"variables.{reason}") for reason in reasons]
        variables, expressions = self._specialised(
            [*(each.expression for each in checked), *texts], known, reasons
        )
        count = len(checked)
        spec = {
            "variables": variables,
            "validations": [
                {"expression": condition, "reason": "Forbidden", "messageExpression": text}
                for condition, text in zip(expressions[:count], expressions[count:], strict=True)
            ],
        }
        return spec if checked else {}

    def _text(self, reason: str) -> str:
        """A reason as main.rego has it: cut if it is too long, and with whom to ask."""
        contact = f" (ask {self.settings.contact})" if self.settings.contact else ""
        cut = (
            f"({reason}.size() > {_LONGEST} ? {reason}.substring(0, {_LONGEST}) + '...' : {reason})"
        )
        return cut + (f" + {literals.text(contact)}" if contact else "")

    def _specialised(
        self, expressions: Sequence[str], known: Known, last: Mapping[str, str] | None = None
    ) -> tuple[list[dict[str, str]], list[str]]:
        """The variables and the expressions of a policy. The variables `last` read all others."""
        variables = {each.name: each.expression for each in [_NAME, *self.definition.variables]}
        needed, written = specialised.specialised({**variables, **(last or {})}, expressions, known)
        return [{"name": name, "expression": text} for name, text in needed.items()], written

    def _failure_policy(self, request: Request) -> str:
        return request.failure_policy or self.settings.failure_policy


def _expressions(part: Any) -> Iterator[str]:
    """The expressions in a part of a spec."""
    if isinstance(part, list):
        for item in part:
            yield from _expressions(item)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in ("expression", "messageExpression"):
                yield value
            else:
                yield from _expressions(value)


def _about(request: Request, parts: Sequence[_Part]) -> list[_Part]:
    """The parts that are about a kind of the request."""
    kinds = {part.kind for part in request.kinds}
    return [part for part in parts if part.concerns(kinds)]


def _message(validation: Validation) -> str:
    return validation.message_expression or literals.text(validation.message or "")

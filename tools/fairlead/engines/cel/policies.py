"""What policies in CEL say about an instance of an intent, whatever kinds of objects they become:
admission policies of API servers (manifests.py), or those of Kyverno."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.deployment import webhooks
from fairlead.engines.cel import definition as definitions
from fairlead.engines.cel import literals
from fairlead.engines.cel.definition import Definition, Validation
from fairlead.policy.instances import Instance
from fairlead.settings.intents import Request
from fairlead.settings.models import Settings

_LONGEST = 4096
"""Characters of a message, as in main.rego. An API server drops one with more than 5 KiB."""
_DENY = ("Deny",)
_WARN = ("Warn",)
_WARN_AND_AUDIT = ("Warn", "Audit")


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
    def refuses(self) -> bool:
        """Whether the policy refuses objects."""
        return self.actions == _DENY


def of(
    instance: Instance, definition: Definition, settings: Settings, *, repeated: bool = True
) -> list[Policy]:
    """The policies of an instance, in order.

    If changes are not `repeated` after other webhooks, the policies refuse what those undo. Raises
    UsageError if they cannot.
    """
    return list(_Instance(instance, definition, settings, repeated).policies())


def parameters(
    instance: Instance, definition: Definition, read: Mapping[str, Any]
) -> dict[str, Any]:
    """What the expressions see as `params`. `read` are the settings as policies read them."""
    values = dict(instance.parameters)
    if definition.settings:
        values["settings"] = {key: read[key] for key in definition.settings}
    return values


def require_definitions(engine: str, active: Sequence[Instance]) -> None:
    """Raise UsageError, with the lines of the settings, if intents are not written in CEL."""
    missing = [each for each in active if definitions.of(each.intent) is None]
    if missing:
        raise UsageError(
            "\n".join(
                f"intents.{each.name}: the engine {engine} cannot enforce it, because "
                f"{each.intent.name} has no {definitions.FILE}: add it, or switch the intent "
                f"off (`{each.name}: false`)"
                for each in missing
            )
        )


@dataclass(frozen=True)
class _Instance:
    instance: Instance
    definition: Definition
    settings: Settings
    repeated: bool

    def policies(self) -> Iterator[Policy]:
        definition, warns = self.definition, self.settings.mode(self.instance.name) == "warn"
        for request in self.instance.requests:
            name = ".".join(filter(None, ("fairlead", self.instance.name, request.name)))
            matched = self._matched(request)
            timeout = request.timeout_seconds or self.settings.timeout_seconds
            if definition.mutations and "mutating" in request.webhooks:
                yield Policy(name, (), timeout, {**matched, **self._mutating(request)})
            refusing = [] if request.failure_policy == "Ignore" else self._refusing(request)
            if refusing:
                policy = "Ignore" if warns else self._failure_policy(request)
                spec = {**matched, **self._validating(refusing, policy)}
                yield Policy(name, _WARN_AND_AUDIT if warns else _DENY, timeout, spec)
            if definition.warnings:
                spec = {**matched, **self._validating(definition.warnings, "Ignore")}
                yield Policy(f"{name}.warnings", _WARN, timeout, spec)

    def _matched(self, request: Request) -> dict[str, Any]:
        matched = {
            "namespaceSelector": {"matchExpressions": webhooks.namespaces(request)},
            "resourceRules": list(webhooks.rules(request, request.kinds)),
        }
        conditions = [condition.model_dump() for condition in request.conditions]
        return {
            "matchConstraints": matched,
            **({"matchConditions": conditions} if conditions else {}),
        }

    def _mutating(self, request: Request) -> dict[str, Any]:
        fields = {"JSONPatch": "jsonPatch", "ApplyConfiguration": "applyConfiguration"}
        return {
            "failurePolicy": self._failure_policy(request),
            "reinvocationPolicy": "IfNeeded",
            "variables": self._variables(),
            "mutations": [
                {
                    "patchType": mutation.patch_type,
                    fields[mutation.patch_type]: {"expression": mutation.expression},
                }
                for mutation in self.definition.mutations
            ],
        }

    def _refusing(self, request: Request) -> list[Validation]:
        checks = not self.repeated and {"mutating", "validating"} <= {*request.webhooks}
        return [*self.definition.validations, *(self._undone() if checks else ())]

    def _undone(self) -> list[Validation]:
        """What is false of an object whose changes other webhooks have undone."""
        conditions = [each.done for each in self.definition.mutations if each.done]
        if len(conditions) < len(self.definition.mutations):
            raise UsageError(
                f"intents.{self.instance.name}: without `done` beside each of the mutations in "
                f"{definitions.FILE}, nothing would refuse objects whose changes other webhooks "
                f"undo: add it, or switch the intent off (`{self.instance.name}: false`)"
            )
        message = (
            f"another webhook has undone what {self.instance.name} adds to the object: make that "
            "webhook leave it alone"
        )
        return [Validation(expression=each, message=message) for each in conditions]

    def _validating(self, validations: Sequence[Validation], policy: str) -> dict[str, Any]:
        """A policy that says why each validation is false; a refusal has only the first reason."""
        reasons = [
            {"name": f"fairlead_reason_{number}", "expression": _message(each)}
            for number, each in enumerate(validations)
        ]
        return {
            "failurePolicy": policy,
            "variables": [*self._variables(), *reasons],
            "validations": [
                {
                    "expression": each.expression,
                    "reason": "Forbidden",
                    "messageExpression": self._text(f"variables.{reason['name']}"),
                }
                for each, reason in zip(validations, reasons, strict=True)
            ],
        }

    def _text(self, reason: str) -> str:
        """A reason as main.rego has it: cut if it is too long, and with whom to ask."""
        contact = f" (ask {self.settings.contact})" if self.settings.contact else ""
        cut = (
            f"({reason}.size() > {_LONGEST} ? {reason}.substring(0, {_LONGEST}) + '...' : {reason})"
        )
        return cut + (f" + {literals.text(contact)}" if contact else "")

    def _variables(self) -> list[dict[str, Any]]:
        return [variable.model_dump() for variable in self.definition.variables]

    def _failure_policy(self, request: Request) -> str:
        return request.failure_policy or self.settings.failure_policy


def _message(validation: Validation) -> str:
    return validation.message_expression or literals.text(validation.message or "")

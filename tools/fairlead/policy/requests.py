"""The requests that an intent has a say in, under settings and parameters that are in force."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from fairlead.kube import admission_reviews
from fairlead.settings.selectors import Selector
from fairlead.settings.strict import Strict

_WRITTEN = re.compile(
    r"(?:(?P<group>[^/]*)/)?(?P<version>v[0-9][^/]*)/(?P<kind>[^/]+)(?:/(?P<subresource>[^/]+))?"
)
SUBRESOURCE = r"^[a-z]+$"
"""The pattern of a subresource's name."""
# Kubernetes' own API groups without a domain. Their plurals, and those of *.k8s.io, follow a rule.
OWN_GROUPS = ("", "apps", "autoscaling", "batch", "policy")


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


def parts(value: object) -> object:
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


class Kind(Strict):
    """A kind of objects, written `apps/v1/Deployment` or `v1/Pod`, or as a mapping.

    `resource` is the name in URLs, which is the plural of the kind unless it is given. A
    `subresource` is one of these objects, such as their `scale` or `status`.
    """

    group: str = ""
    version: str = Field(pattern=r"^v[0-9]+([a-z]+[0-9]+)?$")
    kind: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$")
    resource: str | None = Field(None, pattern=r"^[a-z][-a-z0-9.]*$")
    subresource: str | None = Field(None, pattern=SUBRESOURCE)

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
        suffix = f"/{self.subresource}" if self.subresource else ""
        return (self.resource or admission_reviews.plural(self.kind)) + suffix

    @property
    def path(self) -> str:
        """What is sent, as policies/intents.rego names it: `group/Kind[/subresource]`."""
        group_and_kind = _SENT.get(self.subresource or "", (self.group, self.kind))
        return "/".join(filter(None, ("/".join(group_and_kind), self.subresource)))


AnyKind = Annotated[Kind, BeforeValidator(parts, json_schema_input_type=str | Kind)]
"""A kind as people write it: a text or a mapping."""
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Phase = Literal["mutating", "validating"]
FailurePolicy = Literal["Fail", "Ignore"]


class Condition(Strict):
    """A webhook's matchCondition: a CEL expression that has to be true, of requests with these
    operations; of all requests if there are none.
    """

    name: str
    operations: list[Operation] = []
    expression: str

    @model_validator(mode="before")
    @classmethod
    def _joined(cls, value: Any) -> Any:
        """Join the alternatives of `anyOf`. If none is there, the condition is false."""
        if not isinstance(value, dict) or "anyOf" not in value:
            return value
        of, texts = dict(value), [choice["expression"] for choice in value["anyOf"]]
        del of["anyOf"]
        if of["expression"] is None:
            joined = texts[0] if len(texts) == 1 else " || ".join(f"({text})" for text in texts)
            of["expression"] = joined or "false"
        return of

    def concerns(self, operation: Operation) -> bool:
        """Whether requests with this operation have to meet it."""
        return not self.operations or operation in self.operations

    def manifest(self, operations: Sequence[Operation]) -> dict[str, str]:
        """The matchCondition in something that matches these operations."""
        expression = self.expression.strip()
        unconcerned = [operation for operation in operations if not self.concerns(operation)]
        if unconcerned:
            choices = [
                *(f"request.operation == '{operation}'" for operation in unconcerned),
                f"({expression})",
            ]
            expression = " || ".join(choices)
        return {"name": self.name, "expression": expression}


class Request(Strict):
    """Requests that an intent has a say in. With a `subresource`, each of the kinds is that of its
    objects.

    `webhooks` says who asks about them: a mutating webhook if the intent patches objects, a
    validating one if it refuses them, and both if it also checks what other webhooks made of its
    patch. That check is left out unless the conditions of `final_state` hold, too.
    `failure_policy` and `timeout_seconds` override the settings', for requests that it never
    refuses.
    """

    name: str | None = None
    subresource: str | None = None
    kinds: list[AnyKind] = Field(min_length=1)
    operations: list[Operation] = Field(min_length=1)
    namespaces: Selector = Selector()
    conditions: list[Condition] = []
    webhooks: list[Phase] = ["validating"]
    final_state: list[Condition] = []
    failure_policy: FailurePolicy | None = None
    timeout_seconds: int | None = None

    @field_validator("kinds")
    @classmethod
    def _of_subresources(cls, kinds: list[Kind], info: ValidationInfo) -> list[Kind]:
        subresource = info.data.get("subresource")
        if subresource is None:
            return kinds
        return [kind.model_copy(update={"subresource": subresource}) for kind in kinds]

"""Exceptions: objects of a namespace that intents leave alone until some time. In a cluster they
are of the kind `PolicyException` (policy.fairlead.dev/v1).

policies/exceptions says the same in Rego.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from fairlead.common import mistakes
from fairlead.common.errors import UsageError
from fairlead.kube import resources
from fairlead.kube.own_kinds import EXCEPTIONS, GROUP, VERSION
from fairlead.settings.models import IntentName
from fairlead.settings.strict import Strict

if TYPE_CHECKING:  # the Kubernetes client takes long to load
    from fairlead.kube import clients

EXCEPTION = EXCEPTIONS[1]
"""The kind."""
RESOURCE = resources.make(
    GROUP,
    EXCEPTIONS[2],
    EXCEPTIONS[0],
    namespaced=True,
    fields=["spec.intents", "spec.objects", "spec.until"],
)
"""What OPA gets of them: at `data.kubernetes.policyexceptions`, by namespace and name."""
ANY = "*"
"""At the end of a name, this stands for any further characters."""


def _a_time(text: str) -> str:
    """Raises ValueError for a day or an hour that there is not."""
    _moment(text)
    return text


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


_Resource = Annotated[str, Field(pattern=r"^[a-z][-a-z0-9]*$", max_length=63)]
# As API servers check names, as far as they do it for all kinds.
_Name = Annotated[str, Field(pattern=r"^[^/%*\s]*\*?$", min_length=1, max_length=253)]
_Time = Annotated[
    str,
    Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"),
    AfterValidator(_a_time),
]
_Line = Annotated[str, Field(pattern=r"^[^\n\r]*[^\s][^\n\r]*$", max_length=500)]


class Objects(Strict):
    """The excepted objects of the namespace."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    names: list[_Name] = Field(min_length=1, max_length=50)
    """Their names. A `*` at the end stands for any further characters: the pods of a Deployment
    `web` have names that begin with `web-`."""
    resources: list[_Resource] = Field([], max_length=20)
    """Their resources, such as `pods` or `deployments`, with all that is below them, such as
    `deployments/scale`; without any, objects of all resources."""


class ExceptionSpec(Strict):
    """Objects of the exception's namespace that intents leave alone until some time."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    intents: list[IntentName] = Field(min_length=1, max_length=50)
    """The intents that leave the objects alone, by the names of their instances."""
    objects: Objects
    """The objects."""
    reason: _Line
    """Why they are excepted."""
    owner: _Line
    """Who sees to it that the exception is needed no more: a person or a team."""
    until: _Time
    """When it ends: a time in UTC, such as 2026-12-24T18:00:00Z."""


@dataclass(frozen=True)
class PolicyException:
    """An exception in its namespace."""

    namespace: str
    name: str
    spec: ExceptionSpec

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> PolicyException:
        """The exception of an object. Raises UsageError with each mistake."""
        metadata, spec = value.get("metadata") or {}, value.get("spec") or {}
        namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
        try:
            return cls(namespace, name, ExceptionSpec.model_validate(spec))
        except ValidationError as error:
            texts = (mistake.text for mistake in mistakes.of(error, ExceptionSpec, spec))
            title = f"{EXCEPTION} {namespace}/{name}"
            raise UsageError("\n".join(f"{title}: spec: {text}" for text in texts)) from error

    @property
    def title(self) -> str:
        """How messages name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def end(self) -> datetime:
        """When it ends."""
        return _moment(self.spec.until)

    def has_ended(self, now: datetime) -> bool:
        """Whether it has no effect any more."""
        return self.end <= now

    def excepts(self, intent: str, *, namespace: str, resource: str, name: str) -> bool:
        """Whether the intent leaves an object with this name alone, of this resource, if the
        exception has not ended.
        """
        objects = self.spec.objects
        return (
            namespace == self.namespace
            and intent in self.spec.intents
            and (not objects.resources or resource in objects.resources)
            and (name in objects.names or any(map(name.startswith, self.prefixes)))
        )

    @property
    def prefixes(self) -> list[str]:
        """What the names begin with that end with `*`."""
        return [name[: -len(ANY)] for name in self.spec.objects.names if name.endswith(ANY)]

    def manifest(self) -> dict[str, Any]:
        """The object."""
        return {
            "apiVersion": VERSION,
            "kind": EXCEPTION,
            "metadata": {"namespace": self.namespace, "name": self.name},
            "spec": self.spec.model_dump(by_alias=True, exclude_defaults=True),
        }


def of_cluster(objects: clients.Objects) -> list[PolicyException]:
    """The exceptions of a cluster; none if it does not serve them, or does not let the user list
    them. Raises ApiServerError.
    """
    return readable(objects.visible(VERSION, EXCEPTION, None))


def readable(values: Iterable[Mapping[str, Any]]) -> list[PolicyException]:
    """The exceptions of objects that an API server has stored, sorted; without those that another
    version let it store, and this one cannot read.
    """
    exceptions = []
    for value in values:
        with suppress(UsageError):
            exceptions.append(PolicyException.read(value))
    return sorted(exceptions, key=lambda exception: exception.title)


def in_force(exceptions: Iterable[PolicyException]) -> list[PolicyException]:
    """Those that have not ended."""
    now = datetime.now(UTC)
    return [exception for exception in exceptions if not exception.has_ended(now)]


def tree(exceptions: Iterable[PolicyException]) -> dict[str, Any]:
    """`data.kubernetes.policyexceptions`, as the sidecar loads it into OPA."""
    by_namespace: dict[str, Any] = {}
    for exception in exceptions:
        of_namespace = by_namespace.setdefault(exception.namespace, {})
        of_namespace[exception.name] = RESOURCE.thin(exception.manifest())
    return by_namespace

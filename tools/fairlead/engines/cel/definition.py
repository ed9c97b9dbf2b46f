"""Reads what an intent does as CEL: `engines/cel.yaml` in its folder. docs/engines.md describes the
file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from fairlead.common import mistakes, yaml_files
from fairlead.common.errors import InputError
from fairlead.engines.cel import expressions
from fairlead.policy.intents import Intent
from fairlead.settings.strict import Strict

FILE = Path("engines") / "cel.yaml"


def _parsed(text: str) -> str:
    try:
        expressions.parse(text)
    except RecursionError as error:
        raise ValueError("it has too many parts within parts: use variables") from error
    return text


Expression = Annotated[str, Field(min_length=1), AfterValidator(_parsed)]
"""An expression in CEL."""


class Variable(Strict):
    """A variable, which later expressions may use as `variables.NAME`."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    expression: Expression


class _Part(Strict):
    """A part of the intent. It is left out of policies about requests without any of its `kinds`,
    such as `Pod`; empty if it is about all.
    """

    kinds: list[str] = []

    def concerns(self, kinds: Collection[str]) -> bool:
        """Whether it is about a request with objects of these kinds."""
        return not self.kinds or not {*self.kinds}.isdisjoint(kinds)


class Validation(_Part):
    """An expression that has to be true, and the message if it is not."""

    expression: Expression
    message_expression: Expression | None = None
    message: str | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _one_message(self) -> Validation:
        if (self.message is None) == (self.message_expression is None):
            raise ValueError("a validation has either a message or a messageExpression")
        return self


class Mutation(_Part):
    """A change of the object. It changes nothing if it is applied once more.

    `done` is true if it would not change the object. Kyverno needs it: unlike an API server, it
    does not repeat a change that another webhook undoes, and so has to refuse the object.
    """

    patch_type: Literal["JSONPatch", "ApplyConfiguration"]
    expression: Expression
    done: Expression | None = None


class Inexpressible(Strict):
    """Requests about which the expressions cannot decide, and why.

    `when` is a Jinja2 expression of `settings` (as in fairlead.yaml), `parameters`, `request`
    (operation, kind, subResource, userInfo, object, oldObject) and `namespace` (name, labels).
    """

    when: str = Field(pattern=r"^\{\{.*\}\}$")
    reason: str = Field(min_length=1)


class Definition(Strict):
    """An intent as CEL.

    `settings` are the settings that it reads, as data.settings has them, with their schemas; the
    expressions see them as `params.settings`. `refused_pods` is a list of texts: why every pod of
    an admitted workload will be refused.
    """

    settings: dict[str, dict[str, Any]] = {}
    variables: list[Variable] = []
    validations: list[Validation] = []
    warnings: list[Validation] = []
    refused_pods: Expression | None = None
    mutations: list[Mutation] = []
    inexpressible: list[Inexpressible] = []


def of(intent: Intent) -> Definition | None:
    """The intent as CEL; None if it has no such file. Raises InputError."""
    path = Path(intent.source).parent / FILE
    if not path.is_file():
        return None
    documents = yaml_files.read_yaml(path)
    if len(documents) != 1:
        raise InputError(path, "holds more than one document" if documents else "is empty")
    definition = documents[0].parse(Definition)
    _require_known_kinds(definition, intent, path)
    return definition


def _require_known_kinds(definition: Definition, intent: Intent, path: Path) -> None:
    """Raises InputError for a kind that no request has: its part would be left out everywhere."""
    kind_names = [request.kind_names for request in intent.facts.requests]
    if None in kind_names:  # the settings decide
        return
    kinds = sorted(set().union(*filter(None, kind_names)))
    for field in ("validations", "warnings", "mutations"):
        for number, part in enumerate(getattr(definition, field)):
            for kind in part.kinds:
                if kind not in kinds:
                    location = mistakes.path((field, number, "kinds"))
                    message = f"{location}: {kind} is in no request of intent.yaml: use one of "
                    raise InputError(path, message + ", ".join(kinds))

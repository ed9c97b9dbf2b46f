"""What the models of settings and of intent.yaml have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from fairlead.common import durations
from fairlead.kube import labels

LabelKey = Annotated[str, AfterValidator(labels.check_key)]
LabelValue = Annotated[str, AfterValidator(labels.check_value)]
# Source: RBAC's own check of a subject's name, and what a header can carry.
Group = Annotated[str, Field(pattern=r"^[^\s,][^\n\r,]*$")]
Duration = Annotated[str, AfterValidator(durations.check)]
# Whoever an API server authenticates: its CEL and OPA's Rego get the name as one string.
User = Annotated[str, Field(pattern=r"^[^\s][^\n\r]*$")]


class Strict(BaseModel):
    """A part of what people write, with keys in camelCase: unknown keys and other types are
    errors.
    """

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_default=True,
    )

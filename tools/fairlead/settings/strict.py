"""What the models of settings and of METADATA have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ConfigDict
from pydantic.alias_generators import to_camel

from fairlead.kube import labels

LabelKey = Annotated[str, AfterValidator(labels.check_key)]
LabelValue = Annotated[str, AfterValidator(labels.check_value)]


STRICT = ConfigDict(
    extra="forbid",
    strict=True,
    frozen=True,
    alias_generator=to_camel,
    validate_by_name=True,
    validate_default=True,
)
"""For models of what people write, with keys in camelCase: unknown keys and other types are
errors."""

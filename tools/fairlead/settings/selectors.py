"""Label selectors, as in Kubernetes' meta/v1."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from fairlead.settings.strict import LabelKey, LabelValue, Strict


class Expression(Strict):
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


class Selector(Strict):
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

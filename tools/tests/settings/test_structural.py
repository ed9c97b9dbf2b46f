"""Structural schemas made of models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from fairlead.settings import structural
from fairlead.settings.models import Settings
from fairlead.settings.strict import Strict


class Part(Strict):
    """A part, of which
    `some_name` is one thing.

    The end.
    """

    some_name: str = Field(min_length=1)


class Whole(Strict):
    parts: list[Part]
    by_name: dict[Annotated[str, Field(pattern="^a")], Part]
    anything: dict[str, Any]
    maybe: Annotated[int, Field(gt=0, le=7)] | None = None
    either: str | list[str] = ""
    one: Literal["a"] = "a"
    small: Annotated[float, Field(ge=0.000001, le=1)] = 1


def test_each_form_becomes_what_api_servers_know() -> None:
    part = {
        "type": "object",
        "description": "A part, of which `someName` is one thing.\n\nThe end.",
        "required": ["someName"],
        "properties": {"someName": {"type": "string", "minLength": 1}},
    }
    properties = structural.of_model(Whole)["properties"]
    assert properties == {
        "parts": {"type": "array", "items": part},
        "byName": {"type": "object", "additionalProperties": part},
        "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "maybe": {
            "type": "integer",
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": 7,
            "nullable": True,
        },
        "either": {"x-kubernetes-preserve-unknown-fields": True},
        "one": {"type": "string", "enum": ["a"]},
        "small": {"type": "number", "maximum": 1},
    }
    assert "parts" not in structural.of_model(Whole, without=("parts",))["properties"]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("warn", "warn"),
        ({}, "deny"),
        ({"*": "warn"}, "warn"),
        ({"node-pool": "warn"}, {"node-pool": "warn"}),
        ({"*": "warn", "node-pool": "deny"}, {"*": "warn", "node-pool": "deny"}),
    ],
)
def test_one_word_and_others_for_some_intents(written: Any, kept: Any) -> None:
    settings = Settings.model_validate({"enforcement": written})
    assert settings.document()["enforcement"] == kept
    again = Settings.model_validate({"enforcement": kept})
    assert [again.mode(name) for name in ("node-pool", "other")] == [
        settings.mode(name) for name in ("node-pool", "other")
    ]

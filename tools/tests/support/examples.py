"""Examples of hypothesis as a list, for tests that start one program for all of them."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

Example = TypeVar("Example")


def collected(strategy: st.SearchStrategy[Example], number: int) -> list[Example]:
    """Up to `number` examples. One example that is a list of all would be too large."""
    examples: list[Example] = []

    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(strategy)
    def collect(example: Example) -> None:
        examples.append(example)

    collect()
    return examples

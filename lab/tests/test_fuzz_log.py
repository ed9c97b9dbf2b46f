"""The short way of the decision log shows what the general rules show, and the comparison notices
if it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead.common.progress import Progress
from lab.fuzz import log


def replacing(text: str, other: str) -> Callable[[str], str]:
    """A function that replaces these words of the module."""

    def spoil(module: str) -> str:
        assert module.count(text) == 1
        return module.replace(text, other)

    return spoil


def test_the_short_way_shows_what_the_general_rules_show() -> None:
    result = log.run(seed=1, progress=Progress(), examples=300)
    assert result["why"] is None, result["example"]
    counts = {outcome["outcome"]: outcome["count"] for outcome in result["outcomes"]}
    assert min(counts["plain"], counts["general"]) > 200


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("\t[text | some text in texts; count(text) > 256] == []\n", ""),
        (
            '"value", "effect", "tolerationSeconds"]) == {}',
            '"value", "effect", "tolerationSeconds", "x"]) == {}',
        ),
    ],
)
def test_a_short_way_that_forgets_a_check_is_found(text: str, other: str) -> None:
    result = log.run(seed=1, progress=Progress(), examples=100, spoil=replacing(text, other))
    assert result["why"]

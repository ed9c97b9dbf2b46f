"""The short ways of the decision give the answers of the general rules, and the comparison notices
if they do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fairlead.common.progress import Progress
from fairlead.policy.bundles import Bundle
from lab.fuzz import decision


def without(key: str, text: str) -> Callable[[Bundle], Bundle]:
    """A function that takes these lines out of a module."""

    def spoil(bundle: Bundle) -> Bundle:
        assert text in bundle.modules[key]
        shorter = bundle.modules[key].replace(text, "")
        return replace(bundle, modules={**bundle.modules, key: shorter})

    return spoil


def test_the_short_ways_answer_as_the_general_rules() -> None:
    result = decision.run(seed=1, progress=Progress(), examples=400)
    assert result["why"] is None
    assert result["tried"] >= 400
    counts = {outcome["outcome"]: outcome["count"] for outcome in result["outcomes"]}
    assert min(counts["ordinary"], counts["general"]) > 20


def test_a_short_way_that_forgets_refusals_is_found() -> None:
    spoil = without("main.rego", "\tcount(decision.deny) == 0\n")
    result = decision.run(seed=1, progress=Progress(), examples=400, spoil=spoil)
    assert result["why"]
    assert result["example"]["review"]

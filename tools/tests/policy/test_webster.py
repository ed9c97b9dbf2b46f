"""The policies divide replicas by Webster's method, so that one more takes none from a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import highest_averages
from examples import collected
from hypothesis import strategies as st

from fairlead.common import paths
from fairlead.opa import cli

MODULES = {"webster.rego": (paths.root() / "policies/lib/webster/webster.rego").read_text()}
WEIGHTS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d", "e", "f", "g"]),
    st.integers(1, 12) | st.floats(0.001, 50).map(lambda weight: round(weight, 3)),
    min_size=1,
)
QUERY = """[{number: webster.divided(number, weights) | some number in numbers.range(0, 25)} |
    some weights in input
]"""


def divisions(asked: Sequence[Mapping[str, float]]) -> list[dict[str, dict[str, int]]]:
    """For each of these weights, what 0 to 25 replicas are divided into."""
    module = f"package asked\n\nimport data.lib.webster\n\nanswers := {QUERY}\n"
    answers: list[Any] = cli.evaluate(
        "data.asked.answers", modules={**MODULES, "asked.rego": module}, data={}, input=asked
    )
    return answers


def test_all_are_divided_and_one_more_replica_takes_none_from_a_cluster() -> None:
    asked = collected(WEIGHTS, 150)
    for weights, by_number in zip(asked, divisions(asked), strict=True):
        before = dict.fromkeys(weights, 0)
        for number in range(26):
            counts = by_number[str(number)]
            assert sum(counts.values()) == number
            assert all(counts[name] >= before[name] for name in weights), (weights, number)
            assert counts == highest_averages.divided(number, weights), (weights, number)
            before = counts


def test_large_numbers_are_divided_as_exactly() -> None:
    asked: dict[str, dict[str, float]] = {
        "1000000": {"a": 1, "b": 1_000_000, "c": 0.000001},
        "999999": {"a": 1, "b": 1, "c": 1, "d": 7},
        "65537": {f"cluster-{number}": number + 0.5 for number in range(60)},
    }
    for number, weights in asked.items():
        counts = cli.evaluate(
            f"data.lib.webster.divided({number}, input)", modules=MODULES, data={}, input=weights
        )
        assert sum(counts.values()) == int(number)
        # Nobody else had a better claim to the last one of any.
        least_claim = min(
            weights[name] / (2 * counts[name] - 1) for name in weights if counts[name]
        )
        assert all(
            weights[name] / (2 * counts[name] + 1) <= least_claim * (1 + 1e-9) for name in weights
        )

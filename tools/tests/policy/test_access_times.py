"""Times of transient access are compared exactly, over the whole range of RFC 3339."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import access_oracle
import pytest
from examples import collected
from time_texts import GOOD, ODDITIES, broken, legal, out_of_range

from fairlead.opa import cli
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.access import Access
from fairlead.settings.models import Settings

MODULES = {
    key: text
    for key, text in PolicySet.load(Settings(access=Access())).modules.items()
    if key.startswith("lib.instants.")
}
_MODULE = """
package asked

import data.lib.instants

parsed := [instant | some text in data.texts; instant := _parsed(text)]

_parsed(text) := instant if {
    instant := instants.parse(text)
} else := null

orders := [order | some pair in data.pairs; order := _order(instants.parse(pair[0]), instants.parse(pair[1]))]

_order(one, other) := "before" if {
    one < other
} else := "equal" if {
    one == other
} else := "after" if one > other

waits := [seconds |
    some wait in data.waits
    seconds := instants.seconds_until(instants.of_nanoseconds(wait[0]), instants.parse(wait[1]), 3600)
]
"""  # noqa: E501
_TO_1970 = 719528 * 86400


def asked(query: str, **data: Any) -> Any:
    modules = {**MODULES, "asked.rego": _MODULE}
    return cli.evaluate(f"data.asked.{query}", modules=modules, data=data)


def exactly(parsed: Any) -> Fraction | None:
    """What OPA parsed, in seconds since 1970."""
    if parsed is None:
        return None
    seconds, digits = parsed
    assert not digits.endswith("0")
    return Fraction(seconds) - _TO_1970 + Fraction(int(digits or 0), 10 ** len(digits))


def test_each_text_is_the_instant_that_it_names_or_none() -> None:
    texts = [*ODDITIES, *GOOD, *collected(legal | broken | out_of_range, 1500)]
    expected = [access_oracle.instant(text) for text in texts]
    for text, parsed, instant in zip(texts, asked("parsed", texts=texts), expected, strict=True):
        assert exactly(parsed) == instant, text
    assert sum(instant is not None for instant in expected) > 300
    assert None not in expected[len(ODDITIES) :][: len(GOOD)]
    assert set(expected[: len(ODDITIES)]) == {None}


def test_instants_compare_as_they_follow_one_another() -> None:
    close = [
        *("2026-11-21T20:44:36Z", "2026-11-21T20:44:36.0Z", "2026-11-21T21:44:36+01:00"),
        *("2026-11-21T20:44:36.000000001Z", "2026-11-21T20:44:36.0000000001Z"),
        *("2026-11-21T20:44:35.999999999999999999999Z", "2026-11-21T20:44:36.1Z"),
        *("2026-11-21T20:44:36.10Z", "2026-11-21T20:44:36.09Z", "2026-11-21T20:44:36.2Z"),
        *GOOD,
    ]
    drawn = [text for text in collected(legal, 300) if access_oracle.instant(text) is not None]
    pairs = [*itertools.product(close, close), *itertools.pairwise(drawn)]
    for (one, other), order in zip(pairs, asked("orders", pairs=pairs), strict=True):
        first, second = access_oracle.instant(one), access_oracle.instant(other)
        assert first is not None
        assert second is not None
        expected = "before" if first < second else "equal" if first == second else "after"
        assert order == expected, (one, other)


def test_waits_are_exact_to_the_nanosecond_and_never_too_short() -> None:
    now = 1_795_293_873_366_041_299
    beginning = "2026-11-21T20:44:33.366041299"  # now
    texts = [
        *(f"{beginning}{more}Z" for more in ("0000000001", "1", "999", "", "000")),
        *("2026-11-21T20:44:33.366041300Z", "2026-11-21T20:44:34Z", "2026-11-21T21:44:33Z"),
        *("2026-11-21T21:44:33.366041298Z", "2026-11-21T21:44:33.366041299Z"),
        *("2026-11-21T21:44:33.3660412990001Z", "9999-12-31T23:59:59Z", "2026-11-22T00:00:00Z"),
    ]
    waits = asked("waits", waits=[(now, text) for text in texts])
    for text, wait in zip(texts, waits, strict=True):
        then = access_oracle.instant(text)
        assert then is not None
        assert wait == float(access_oracle.seconds_until(Fraction(now, 10**9), then)), text


@pytest.mark.parametrize("now", [0, -1, -(10**9), 2**63 - 1, -(2**63)])
def test_any_time_of_the_clock_is_an_instant(now: int) -> None:
    query = f"data.lib.instants.of_nanoseconds({now})"
    parsed = cli.evaluate(query, modules=MODULES, data={})
    assert exactly(parsed) == Fraction(now, 10**9)

"""A time means the same wherever it is read: what the schema takes, the controller and OPA take for
the same instant; these two agree about every text; and what people write at the command line
becomes a text that the schema takes, of the same instant.

integration/tests/test_access.py compares the schema as API servers apply it.
"""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Any

import pytest
from examples import collected
from rendering import every
from time_texts import EDGES, GOOD, ODDITIES, broken, legal, out_of_range

from fairlead.access import instants
from fairlead.opa import cli
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.access import Access
from fairlead.settings.models import Settings

_MODULE = """
package asked

import data.lib.instants

parsed := [instant | some text in data.texts; instant := _parsed(text)]

_parsed(text) := instant if {
    instant := instants.parse(text)
} else := null
"""
_TO_1970 = 719528 * 86400
TEXTS = [*EDGES, *GOOD, *ODDITIES, *collected(legal | broken | out_of_range, 1500)]


def by_controller(text: str) -> int | None:
    try:
        return instants.nanoseconds(text)
    except ValueError:
        return None


@pytest.fixture(scope="module")
def by_opa() -> list[int | None]:
    """What OPA reads in TEXTS, in nanoseconds, rounded down."""
    modules = {
        key: text
        for key, text in PolicySet.load(Settings(access=Access())).modules.items()
        if key.startswith("lib.instants.")
    }
    answer: list[Any] = cli.evaluate(
        "data.asked.parsed", modules={**modules, "asked.rego": _MODULE}, data={"texts": TEXTS}
    )
    return [
        instant
        and (instant[0] - _TO_1970) * instants.SECOND + int(instant[1][:9].ljust(9, "0") or 0)
        for instant in answer
    ]


def schema_pattern() -> re.Pattern[str]:
    """The pattern of validUntil, as RE2 and Python both read it."""
    definition = every({"access": True})[
        "CustomResourceDefinition", "transientrolebindings.access.fairlead.dev"
    ]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    times = [
        schema["properties"]["spec"]["properties"][field] for field in ("validFrom", "validUntil")
    ]
    assert times[0]["pattern"] == times[1]["pattern"]
    return re.compile(times[0]["pattern"].removesuffix("$") + r"\Z")


def test_the_controller_and_opa_read_the_same(by_opa: list[int | None]) -> None:
    for text, instant in zip(TEXTS, by_opa, strict=True):
        assert by_controller(text) == instant, text
    assert 300 < sum(instant is not None for instant in by_opa) < len(TEXTS) - 300


def test_the_schema_takes_nothing_that_they_read_otherwise() -> None:
    pattern, taken = schema_pattern(), 0
    for text in TEXTS:
        if not pattern.match(text):
            continue
        instant, taken = by_controller(text), taken + 1
        if instant is None:  # a day or an hour that does not exist: the format date-time
            with pytest.raises(ValueError, match=r"must be in|out of range|Invalid"):
                datetime.fromisoformat(re.sub(r"[.]\d+", "", text))
        elif -62_135_596_800 * instants.SECOND <= instant < 253_402_300_800 * instants.SECOND:
            assert by_controller(instants.spelled(instant)) == instant, text
    assert taken > 200
    refused = [text for text in EDGES if not pattern.match(text)]
    assert refused == [text for text in EDGES if by_controller(text) is None]


def test_what_people_write_is_the_same_instant_in_a_text_that_the_schema_takes() -> None:
    pattern, taken = schema_pattern(), 0
    for text in TEXTS:
        if not re.search(r"([Zz]|[+-]\d\d:\d\d)$", text):
            continue  # a time of the local zone, or none
        try:
            written = instants.of(instants.written(text))
        except (ValueError, OverflowError):
            continue
        taken += 1
        complete = re.sub(r"^(.{10}).(\d\d:\d\d)(?=[Z+-])", r"\1T\2:00", text)
        assert written == by_controller(complete.replace(" ", "T")), text
        assert pattern.match(instants.spelled(written)), text
    assert taken > 200


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("2027-03-28T01:59", "+01:00"),
        ("2027-03-28T03:00:00", "+02:00"),
        ("2027-10-31T01:59:59.5", "+02:00"),
        ("2027-10-31 03:00", "+01:00"),
        ("2026-11-24", "+01:00"),
    ],
)
def test_a_time_without_an_offset_is_of_the_local_zone(text: str, offset: str) -> None:
    assert instants.written(text).isoformat().endswith(offset)
    assert instants.written(text).isoformat().startswith(text.replace(" ", "T"))


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2027-03-28T02:30", "does not exist in the local zone.*such as 2027-03-28T03:30:00.02:00"),
        ("2027-03-28T02:00", "does not exist in the local zone, where clocks are set forward"),
        ("2027-10-31T02:30", "is twice.*2027-10-31T02:30:00.02:00 or 2027-10-31T02:30:00.01:00"),
        ("2027-10-31T02:59:59.999", "is twice in the local zone, where clocks are set back"),
    ],
)
def test_a_time_that_a_clock_change_skips_or_doubles_needs_an_offset(
    text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        instants.written(text)
    for offset in ("+01:00", "+02:00"):
        assert instants.written(f"{text}{offset}")


@pytest.mark.parametrize(
    "text",
    ["noon", "", "2026-W01", "20261124T0900", "2026-11-24T09", "2026-11-24T09:00+1", "09:00"],
)
def test_anything_else_is_told_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time such as 2026-11-24T09:00 or 2026-11-24T09"):
        instants.written(text)

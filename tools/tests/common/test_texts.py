"""Times and counts have one spelling."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from fairlead.common import texts

EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 11, 22, 15, 4, 5, tzinfo=UTC),
        datetime(2026, 11, 22, 15, 4, 5, 999999, UTC),
        datetime(2026, 11, 22, 17, 4, 5, tzinfo=EAST),
    ],
)
def test_a_time_is_in_utc_and_whole_seconds(moment: datetime) -> None:
    assert texts.time(moment) == "2026-11-22T15:04:05Z"


def test_the_present_time_is_spelled_in_the_same_way() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    assert before <= datetime.fromisoformat(texts.now()) <= datetime.now(UTC)


@pytest.mark.parametrize(("count", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_a_noun_is_plural_unless_there_is_one(count: int, text: str) -> None:
    assert texts.counted(count, "pod") == text


def test_control_characters_are_escaped_but_those_to_keep() -> None:
    assert texts.printable("a\n\x1b[2Jé") == "a\\n\\x1b[2Jé"
    assert texts.printable("a\n\r", keep="\n") == "a\n\\r"

"""Times of RFC 3339, to the nanosecond."""

from __future__ import annotations

import pytest

from fairlead.access import instants


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T01:00:00.5+01:00", 500_000_000),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2024-02-29T23:59:59-00:30", 1_709_252_999 * instants.SECOND),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_799 * instants.SECOND + 999_999_999),
        ("9999-12-31T23:59:59-23:59", (253_402_300_799 + 86_340) * instants.SECOND),
        ("0001-01-01T00:00:00+23:59", (-62_135_596_800 - 86_340) * instants.SECOND),
        ("0000-02-29T00:00:00Z", (-719_528 + 59) * 86_400 * instants.SECOND),
        ("1970-01-01t00:00:00.1234567899z", 123_456_789),
    ],
)
def test_every_legal_time_is_exact(text: str, nanoseconds: int) -> None:
    assert instants.nanoseconds(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "never", "2026-11-21", "2026-11-21 10:00:00Z", "2026-11-21T10:00:00"),
        *("2026-02-29T10:00:00Z", "2026-11-21T24:00:00Z", "2016-12-31T23:59:60Z"),
        *("0000-02-30T00:00:00Z", "2026-11-21T10:00:00.Z", "2026-11-21T10:00:00-24:00"),
        *("2026-11-21T10:00:00+24:00", "2026-11-21T10:00:00+01:60", "\uff12026-11-21T10:00:00Z"),
        "2026-11-21T10:00:00Z\n",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        instants.nanoseconds(text)


@pytest.mark.parametrize(
    "text",
    [
        *("1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "2026-11-21T10:00:00.000000001Z"),
        *("1969-12-31T23:59:59.5Z", "9999-12-31T23:59:59.999999999Z"),
    ],
)
def test_a_time_is_written_as_it_is_read(text: str) -> None:
    assert instants.spelled(instants.nanoseconds(text)) == text


def test_the_last_second_may_have_no_local_time() -> None:
    assert instants.moment(0).timestamp() == 0
    with pytest.raises(OverflowError):
        instants.moment(instants.nanoseconds("9999-12-31T23:59:59-23:59"))

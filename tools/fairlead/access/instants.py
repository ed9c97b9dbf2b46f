"""Times of RFC 3339, exact to the nanosecond, as policies/lib/instants reads them: both take and
refuse the same texts. A datetime holds microseconds only, and so would end access too early or too
late.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

SECOND = 1_000_000_000
"""Nanoseconds."""

_SPELLING = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE = 400, 146_097
"""The years after which the calendar repeats itself, and their days."""


def nanoseconds(text: str) -> int:
    """The time in nanoseconds since the epoch, rounded down; negative before it. Raises
    ValueError.
    """
    match = _SPELLING.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time of RFC 3339, such as 2026-11-21T20:44:36Z")
    year, *civil, fraction, sign, hours, minutes = match.groups()
    before = int(year) == 0  # a datetime has no year 0
    local = datetime(int(year) + before * _CYCLE[0], *map(int, civil), tzinfo=UTC) - _EPOCH  # type: ignore[arg-type, misc]
    local -= before * timedelta(days=_CYCLE[1])
    if int(hours or 0) > 23 or int(minutes or 0) > 59:
        raise ValueError(f"{text!r} has an offset that is none: at most 23:59")
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    seconds = (local + offset if sign == "-" else local - offset) // timedelta(seconds=1)
    return seconds * SECOND + int((fraction or "0")[:9].ljust(9, "0"))


def spelled(nanoseconds: int) -> str:
    """The time in UTC, as `nanoseconds` reads it and API servers compare it. Raises OverflowError
    for one that is not in the years 1 to 9999.
    """
    seconds, rest = divmod(nanoseconds, SECOND)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").zfill(19)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{text}{fraction}Z"


def moment(nanoseconds: int) -> datetime:
    """The time in the local zone, cut to microseconds. Raises OverflowError at the ends of what a
    datetime can be.
    """
    return (_EPOCH + timedelta(microseconds=nanoseconds // 1000)).astimezone()

"""Times of RFC 3339, exact to the nanosecond, as policies/lib/instants compares them. A datetime
holds microseconds only, and so would end access too early or too late."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

SECOND = 1_000_000_000
"""Nanoseconds."""

_SPELLING = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def nanoseconds(text: str) -> int:
    """The time in nanoseconds since the epoch; negative before it. Raises ValueError."""
    match = _SPELLING.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time of RFC 3339, such as 2026-11-21T20:44:36Z")
    *civil, fraction, sign, hours, minutes = match.groups()
    local = datetime(*map(int, civil), tzinfo=UTC) - _EPOCH  # type: ignore[arg-type, misc]
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if offset >= timedelta(days=1) or int(minutes or 0) > 59:
        raise ValueError(f"{text!r} has an offset that no place has")
    seconds = (local + offset if sign == "-" else local - offset) // timedelta(seconds=1)
    return seconds * SECOND + int((fraction or "0").ljust(9, "0"))


def moment(nanoseconds: int) -> datetime:
    """The time in the local zone, cut to microseconds. Raises OverflowError at the ends of what a
    datetime can be.
    """
    return (_EPOCH + timedelta(microseconds=nanoseconds // 1000)).astimezone()

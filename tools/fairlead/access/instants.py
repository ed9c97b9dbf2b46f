"""Times of RFC 3339, exact to the nanosecond, as policies/lib/instants reads them: both take and
refuse the same texts. A datetime holds microseconds only, and so would end access too early or too
late.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

SECOND = 1_000_000_000
"""Nanoseconds."""

_SPELLING = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_WRITTEN = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?([Zz]|[+-]\d\d:\d\d)?)?", re.ASCII
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
    with _named(text):
        local = datetime(int(year) + before * _CYCLE[0], *map(int, civil), tzinfo=UTC) - _EPOCH  # type: ignore[arg-type, misc]
    local -= before * timedelta(days=_CYCLE[1])
    if int(hours or 0) > 23 or int(minutes or 0) > 59:
        raise ValueError(f"{text!r} has an offset that is none: at most 23:59")
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    seconds = (local + offset if sign == "-" else local - offset) // timedelta(seconds=1)
    return seconds * SECOND + int((fraction or "0")[:9].ljust(9, "0"))


def written(text: str) -> datetime:
    """The time that somebody has written: of RFC 3339, seconds may be left out, and a time without
    an offset is one of the local zone. Raises ValueError with a sentence that tells what to write.
    """
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a time such as 2026-11-24T09:00 or 2026-11-24T09:00+01:00"
        )
    day, minute, second, offset = match.groups()
    whole = f"{day}T{minute or '00:00'}{second or ':00'}"
    if offset:
        return moment(nanoseconds(whole + offset))
    with _named(text):
        local = datetime.fromisoformat(whole)
    earlier, later = (local.replace(fold=fold).astimezone() for fold in (0, 1))
    if earlier.utcoffset() == later.utcoffset():
        return earlier
    if earlier.replace(tzinfo=None) != local:
        raise ValueError(
            f"{text} does not exist in the local zone, where clocks are set forward then: write it "
            f"with its offset, such as {later.isoformat()}"
        )
    raise ValueError(
        f"{text} is twice in the local zone, where clocks are set back then: write "
        f"{earlier.isoformat()} or {later.isoformat()}"
    )


@contextmanager
def _named(text: str) -> Iterator[None]:
    """Raises the errors of datetime with the text that is meant."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{text!r} is not in the calendar: {error}") from error


def of(moment: datetime) -> int:
    """The time in nanoseconds since the epoch."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


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

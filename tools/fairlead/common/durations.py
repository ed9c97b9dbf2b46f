"""Durations in settings and flags: a whole number of days, hours, minutes or seconds, such as
90d."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_SPELLING = re.compile(r"([1-9][0-9]{0,8})([dhms])")
_LONGEST = timedelta(days=3650)


def parse(text: str) -> timedelta:
    """The duration that `text` spells. Raises ValueError."""
    match = _SPELLING.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration: write for instance 90d, 36h, 45m or 90s")
    duration = timedelta(**{_UNITS[match[2]]: int(match[1])})
    if duration > _LONGEST:
        raise ValueError(f"{text!r} is longer than {_LONGEST.days} days")
    return duration


def check(text: str) -> str:
    """`text` itself, if it spells a duration. Raises ValueError."""
    parse(text)
    return text


def rough(duration: timedelta, units: int) -> str:
    """The largest units of a duration, so many at most, such as `1h 59m`."""
    parts: list[str] = []
    seconds = int(duration.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count or parts or unit == "s":
            parts.append(f"{count}{unit}")
    return " ".join(parts[:units])


def text(duration: timedelta) -> str:
    """The shortest spelling of a duration, in whole seconds."""
    seconds = int(duration.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"

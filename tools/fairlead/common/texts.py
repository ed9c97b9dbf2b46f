"""Spells times and counts for people, everywhere in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime


def time(moment: datetime) -> str:
    """`moment` (with a time zone) as RFC 3339 in UTC and whole seconds: 2026-11-22T15:04:05Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now() -> str:
    """The present time; see `time`."""
    return time(datetime.now(UTC))


def counted(count: int, noun: str) -> str:
    """The count with its noun, such as `1 pod` or `3 pods`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def first(names: Sequence[str], most: int) -> str:
    """So many of the names, and an ellipsis if there are more."""
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])


def printable(text: str, *, keep: str = "") -> str:
    """`text` with control characters escaped, except those to `keep`: a name in a log could steer
    the terminal.
    """
    return "".join(
        character if character.isprintable() or character in keep else ascii(character)[1:-1]
        for character in text
    )


def shortened(text: str, longest: int) -> str:
    """The text; of a longer one, so many characters of its beginning, and an ellipsis."""
    return text if len(text) <= longest else f"{text[:longest]}..."

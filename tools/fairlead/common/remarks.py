"""Checks remarks that users give on the command line and that are stored in the cluster."""

from __future__ import annotations

from fairlead.common.errors import UsageError

LONGEST = 500
"""The most characters of a remark."""


def check(option: str, remark: str | None) -> None:
    """Raises UsageError unless the remark is one line of text, or None; `option` names its flag."""
    if remark is not None and not (remark.isprintable() and 0 < len(remark.strip()) <= LONGEST):
        raise UsageError(f"{option} takes one line of 1 to {LONGEST} characters")

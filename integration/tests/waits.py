"""How long tests wait for what must happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fairlead.common import waiting

T = TypeVar("T")

DEADLINE = 600.0
"""Seconds after which a wait fails. Most take less than ten on an idle machine; a busy one must not
fail a test."""


def until(check: Callable[[], T | None], what: str, pause: float = 0.05) -> T:
    """As waiting.until, with the deadline of all tests."""
    return waiting.until(check, deadline=DEADLINE, what=what, pause=pause)

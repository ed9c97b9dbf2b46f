"""Waiting for a condition: how long, and what is said when it does not come."""

from __future__ import annotations

import time

import pytest

from fairlead.common import waiting
from fairlead.common.errors import FairleadError


@pytest.mark.parametrize("ago", [0.0, 0.5, 7.0])
def test_the_whole_deadline_is_named_however_much_of_it_is_left(ago: float) -> None:
    calls = []

    def check() -> None:
        calls.append(time.monotonic())
        raise FairleadError("not yet")

    began = time.monotonic()
    with pytest.raises(FairleadError) as raised:
        waiting.until(check, deadline=1, what="it is there", pause=0.001, since=began - ago)
    assert str(raised.value) == "this did not happen within 1 s: it is there (not yet)"
    assert len(calls) >= 1
    assert (len(calls) == 1) == (ago > 1)


def test_what_is_there_when_the_deadline_is_over_counts() -> None:
    since = time.monotonic() - 7
    assert waiting.until(lambda: "it", deadline=0.05, what="it is there", since=since) == "it"

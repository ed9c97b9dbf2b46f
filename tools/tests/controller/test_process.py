"""The process of `fairlead controller`: its parts work by themselves, and end together."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from fairlead.common.errors import FairleadError
from fairlead.controller.process import Process


class Part:
    """Works until it is told to stop, or does `first` before."""

    def __init__(self, name: str, reasons: list[str] | None = None, first: Any = None) -> None:
        self.name = name
        self.reasons = reasons or []
        self.first = first
        self.stopped = False

    def run(self, stop: Event) -> None:
        if self.first:
            self.first()
            return
        stop.wait(60)
        self.stopped = stop.is_set()

    def health(self) -> dict[str, Any]:
        return {"reasons": self.reasons, "more": self.name}


def test_the_health_of_all_parts_is_told_with_that_of_each() -> None:
    assert Process([Part("a"), Part("b", ["it is late"])]).health() == {
        "healthy": False,
        "reasons": ["it is late"],
        "a": {"reasons": [], "more": "a"},
        "b": {"reasons": ["it is late"], "more": "b"},
    }
    assert Process([Part("a")]).health()["healthy"]


def test_all_parts_end_when_it_is_stopped() -> None:
    parts, stop = [Part("a"), Part("b")], Event()
    stop.set()
    Process(parts).run(stop)
    assert [part.stopped for part in parts] == [True, True]


@pytest.mark.parametrize("fails", [lambda: None, lambda: 1 / 0], ids=["returns", "raises"])
def test_a_part_that_ends_by_itself_ends_the_process(fails: Any) -> None:
    other, stop = Part("other"), Event()
    with pytest.raises(FairleadError, match="broken ended: see the log"):
        Process([other, Part("broken", first=fails)]).run(stop)
    assert other.stopped

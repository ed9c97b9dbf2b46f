"""The logs of several servers joined into one."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from fairlead.clusters import joined_logs
from fairlead.common.errors import FairleadError

LOGS = {"a": ["one\ntw", "o\n"], "b": ["three\nfo", "ur"], "empty": []}


def read(name: str) -> Iterator[str]:
    if name == "gone":
        raise FairleadError("cannot read the log of gone")
    yield from LOGS[name]


def test_one_log_is_as_it_is() -> None:
    assert list(joined_logs.merged(["a"], read, follow=False)) == LOGS["a"]
    with pytest.raises(FairleadError, match="cannot read"):
        list(joined_logs.merged(["gone"], read, follow=False))


def test_of_several_each_line_tells_its_server() -> None:
    text = "".join(joined_logs.merged(["a", "empty", "b"], read, follow=False))
    assert text == "[a] one\n[a] two\n[b] three\n[b] four\n"


def test_one_that_cannot_be_read_hides_none_of_the_others() -> None:
    text = "".join(joined_logs.merged(["gone", "a"], read, follow=False))
    assert text == "[gone] cannot read the log of gone\n[a] one\n[a] two\n"


def test_what_one_writes_comes_while_another_is_silent() -> None:
    silent = Event()

    def waits(name: str) -> Iterator[str]:
        if name == "silent":
            silent.wait(60)
        yield from LOGS["a"]

    lines = joined_logs.merged(["silent", "a"], waits, follow=True)
    assert [next(lines), next(lines)] == ["[a] one\n", "[a] two\n"]
    silent.set()
    assert list(lines) == ["[silent] one\n", "[silent] two\n"]

"""Joins the logs of several servers into one; each line begins with its server's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import Queue
from threading import Thread

from fairlead.common.errors import FairleadError

Read = Callable[[str], Iterator[str]]
"""The log of a server by its name, in pieces that need not be lines. Raises FairleadError."""


def merged(names: Sequence[str], read: Read, *, follow: bool) -> Iterator[str]:
    """The logs of the servers `names`: one as it is, of several each line after `[name] `, one
    server after the other.

    With `follow` they come as they are written. A log that cannot be read is told in a line of its
    own, and hides none of the others. Raises FairleadError where there is but one.
    """
    if len(names) == 1:
        return read(names[0])
    if follow:
        return _followed(names, read)
    return (line for name in names for line in _lines(name, read))


def _followed(names: Sequence[str], read: Read) -> Iterator[str]:
    lines: Queue[str | None] = Queue()

    def work(name: str) -> None:
        for line in _lines(name, read):
            lines.put(line)
        lines.put(None)

    for name in names:  # daemons: each waits in its read when the caller has seen enough
        Thread(target=work, args=(name,), daemon=True).start()
    open_logs = len(names)
    while open_logs:
        line = lines.get()
        if line is None:
            open_logs -= 1
        else:
            yield line


def _lines(name: str, read: Read) -> Iterator[str]:
    """Whole lines, each with the name before it and a line break behind."""
    rest = ""
    try:
        for piece in read(name):
            *whole, rest = (rest + piece).split("\n")
            yield from (f"[{name}] {line}\n" for line in whole)
    except FairleadError as error:
        yield f"[{name}] {error}\n"
    if rest:
        yield f"[{name}] {rest}\n"

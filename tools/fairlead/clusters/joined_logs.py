"""Joins the logs of several servers into one; each line begins with its server's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import Queue
from threading import Thread

from fairlead.common.errors import FairleadError

Read = Callable[[str], Iterator[str]]
"""The log of a server by its name, in pieces of any length. Raises FairleadError."""


def merged(names: Sequence[str], read_log: Read, *, follow: bool) -> Iterator[str]:
    """The logs of the servers `names`. One log stays as it is; of several, each line begins with
    `[name] `, and one log follows the other.

    With `follow`, lines appear as they are written. A log that cannot be read becomes a line that
    says so, and does not hide the others. Raises FairleadError if there is only one.
    """
    if len(names) == 1:
        return read_log(names[0])
    if follow:
        return _followed(names, read_log)
    return (line for name in names for line in _lines(name, read_log))


def _followed(names: Sequence[str], read_log: Read) -> Iterator[str]:
    lines: Queue[str | None] = Queue()

    def work(name: str) -> None:
        for line in _lines(name, read_log):
            lines.put(line)
        lines.put(None)

    for name in names:  # daemons, as each may still wait for its log when the caller has stopped
        Thread(target=work, args=(name,), daemon=True).start()
    open_logs = len(names)
    while open_logs:
        line = lines.get()
        if line is None:
            open_logs -= 1
        else:
            yield line


def _lines(name: str, read_log: Read) -> Iterator[str]:
    """Whole lines, each with the name before it and a line break after it."""
    unfinished = ""
    try:
        for piece in read_log(name):
            *lines, unfinished = (unfinished + piece).split("\n")
            yield from (f"[{name}] {line}\n" for line in lines)
    except FairleadError as error:
        yield f"[{name}] {error}\n"
    if unfinished:
        yield f"[{name}] {unfinished}\n"

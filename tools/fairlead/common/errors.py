"""The errors that users see. Each has an exit code, and none shows a traceback."""

from __future__ import annotations


class FairleadError(Exception):
    """Something failed or does not hold; the message says what and what to do next."""

    exit_code = 1


class UsageError(FairleadError):
    """What was asked for or handed in is wrong: a flag, a name, a file; nothing was changed."""

    exit_code = 2


class InputError(UsageError):
    """A file that cannot be read as what it should be: names the file, the line and the way out."""

    def __init__(self, path: object, problem: str, *, line: int | None = None) -> None:
        where = f"{path}:{line}" if line else str(path)
        super().__init__(f"{where}: {problem}")

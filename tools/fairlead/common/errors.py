"""The errors that users see. Each has an exit code, and none shows a traceback."""

from __future__ import annotations


class FairleadError(Exception):
    """Something failed; the message says what, and what to do next."""

    exit_code = 1


class UsageError(FairleadError):
    """A flag, a name or a file is wrong; nothing was changed."""

    exit_code = 2


class InputError(UsageError):
    """A file has the wrong content; the message names the file, the line and the fix."""

    def __init__(self, path: object, problem: str, *, line: int | None = None) -> None:
        where = f"{path}:{line}" if line else str(path)
        super().__init__(f"{where}: {problem}")

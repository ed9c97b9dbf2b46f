"""The errors that users see. Each has an exit code, and none shows a traceback."""

from __future__ import annotations

from collections.abc import Iterable


class FairleadError(Exception):
    """Something failed; the message says what, and what to do next."""

    exit_code = 1


class UsageError(FairleadError):
    """A flag, a name or a file is wrong; nothing was changed."""

    exit_code = 2


class InputError(UsageError):
    """A file has the wrong content; the message names the file, the line and the fix.

    `further` are more problems of the same file, as (line, problem); each has a line of its own.
    """

    def __init__(
        self,
        path: object,
        problem: str,
        *,
        line: int | None = None,
        further: Iterable[tuple[int | None, str]] = (),
    ) -> None:
        problems = [(line, problem), *further]
        super().__init__(
            "\n".join(
                f"{path}:{number}: {text}" if number else f"{path}: {text}"
                for number, text in problems
            )
        )

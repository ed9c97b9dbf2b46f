"""The errors that users see. Each has an exit code, and none shows a traceback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.common import texts


class FairleadError(Exception):
    """Something failed; the message says what, and what to do next."""

    exit_code = 1


class UsageError(FairleadError):
    """A flag, a name or a file is wrong; nothing was changed."""

    exit_code = 2


class InputError(UsageError):
    """A file has the wrong content; the message names the file, the line and the fix.

    `further` are more problems of the same file, as (line, problem); each has a line of its own.
    `path`, `line` and `problem` are also attributes.
    """

    def __init__(
        self,
        path: object,
        problem: str,
        *,
        line: int | None = None,
        further: Iterable[tuple[int | None, str]] = (),
    ) -> None:
        self.path, self.line, self.problem = path, line, problem
        problems = [(line, problem), *further]
        place = texts.printable(str(path))
        super().__init__(
            "\n".join(
                f"{place}:{number}: {text}" if number else f"{place}: {text}"
                for number, text in problems
            )
        )


def together(problems: Sequence[UsageError]) -> UsageError:
    """All of these mistakes, at least one, as one error with a line for each."""
    return problems[0] if len(problems) == 1 else UsageError("\n".join(map(str, problems)))

"""The commands in messages, as they work where the message is read: a checkout's `fairlead` may not
be on the PATH, or not the one that is."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

from fairlead.common import paths

_NAME = "fairlead"
_COMMAND = re.compile(rf"(?<=[`;:\n] ){_NAME}(?= [a-z])|(?<=`){_NAME}(?= [a-z])")
"""Where a message names a command: in backticks, or after `next:` and `;`."""


def as_typed(text: str) -> str:
    """The message with the commands as this process was called."""
    if _NAME not in text or (program := _program(sys.argv[0])) is None:
        return text
    called = str(program) if "cd " in text else paths.shown(program)
    return _COMMAND.sub(lambda _: shlex.quote(called), text)


def _program(called: str) -> Path | None:
    """The file of the program that this process is; None if its name alone starts it, or if it was
    not started as that program.
    """
    if Path(called).name != _NAME:
        return None
    on_path = shutil.which(_NAME)
    program = Path(shutil.which(called) or called).absolute()
    is_found = on_path is not None and Path(on_path).resolve() == program.resolve()
    return None if is_found else program

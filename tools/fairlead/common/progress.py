"""The interface by which long work reports progress."""

from __future__ import annotations

import logging


class Progress:
    """Ignores all reports; `fairlead.cli.output` has a subclass that shows them."""

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        """Report that `name` (a program, a server, a step) is now in `state`, and goes on.

        `done` of `total` units are finished.
        """

    def finish(self, name: str, state: str) -> None:
        """Report that `name` has ended; `state` says with which result. Where the output is no
        terminal, that is its only line.
        """
        self.update(name, state, done=1, total=1)

    def warn(self, message: str) -> None:
        """Report something that the user has to know beside the result."""


class Logged(Progress):
    """Logs each report."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        """See Progress."""
        self._log.info("%s: %s", name, state)

    def warn(self, message: str) -> None:
        """See Progress."""
        self._log.warning("%s", message)

"""The interface by which long work reports progress."""

from __future__ import annotations


class Progress:
    """Listens to long work; this one says nothing, `fairlead.cli.output` has one for people."""

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        """Tell that `name` (a program, a server, a step) is now in `state`, with `done` of
        `total` units behind it.
        """

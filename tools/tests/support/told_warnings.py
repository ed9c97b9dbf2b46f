"""A progress listener that keeps the warnings that it is told."""

from __future__ import annotations

from fairlead.common.progress import Progress


class Warnings(Progress):
    """Keeps all warnings in `texts`."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, message: str) -> None:
        self.texts.append(message)

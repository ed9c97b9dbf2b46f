"""Work that is done by a look at the cluster again and again: a part of `fairlead controller`."""

from __future__ import annotations

import logging
from threading import Event
from typing import Any

from fairlead.kube import clients

log = logging.getLogger(__name__)


class Regular:
    """Looks every `pause` seconds, and goes on after a failure. `failing` says in a log what a
    failure means.
    """

    name: str
    pause: float
    failing: str

    def __init__(self, objects: clients.Objects) -> None:
        self._objects = objects
        self._trouble: str | None = None

    def run(self, stop: Event) -> None:
        """Look until `stop` is set."""
        while not stop.wait(self.pause):
            try:
                self.look()
                self._trouble = None
            except Exception as error:
                if str(error) != self._trouble:
                    log.warning("%s: %s", self.failing, error)
                self._trouble = str(error) or type(error).__name__
                self._objects.renew()

    def health(self) -> dict[str, Any]:
        """{"reasons"}: why it cannot look, or do what is due."""
        return {"reasons": [self._trouble] if self._trouble else []}

    def look(self) -> None:
        """Do what is due. Raises FairleadError."""
        raise NotImplementedError

"""Rotates a token or the certificate when the object Fairlead asks for it, and says in its status
how that ended: a part of `fairlead controller`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Logged
from fairlead.controller import reports, statuses
from fairlead.keeper.lease import Lease
from fairlead.keeper.regular import Regular
from fairlead.keeper.trust import Deployed
from fairlead.kube import clients
from fairlead.kube.api_requests import BRIEF
from fairlead.operations import object_following, rotate
from fairlead.operations.object_following import DONE, FAILED, REFUSED, RUNNING

log = logging.getLogger(__name__)


class Rotations(Regular):
    """Of several replicas, one at a time rotates, and none while a command or the keeper does. One
    that was interrupted is done again, which ends it.
    """

    name = "rotations"
    pause = 2.0
    failing = "nothing can be rotated"

    def __init__(
        self, kubeconfig: Path | None, inside: Callable[[], Cluster], *, replica: str
    ) -> None:
        """`inside` gives the cluster anew, and `replica` is the name of this one. Raises
        UsageError.
        """
        super().__init__(clients.Objects(kubeconfig, timeout=BRIEF))
        self._inside = inside
        self._lease = Lease(self._objects, f"{replica}-{self.name}", restored=True)

    def look(self) -> None:
        """Do what is asked for. Raises FairleadError if the status cannot be written."""
        if self._due() is None:
            return
        with self._lease.attempt() as leading:
            due = self._due() if leading else None
            if due:
                self._carry_out(*due)

    def _due(self) -> tuple[Mapping[str, Any], str] | None:
        """The object Fairlead with a request that nobody has answered; None if there is none."""
        fairlead = object_following.followed(self._objects)
        request = object_following.rotation_due(fairlead) if fairlead else None
        return (fairlead, request) if fairlead and request else None

    def _carry_out(self, fairlead: Mapping[str, Any], request: str) -> None:
        subject = request.partition(" ")[0]
        deployed = Deployed(
            self._objects, manager=clients.FIELD_MANAGER, check=self._lease.check, alone=True
        )

        def tell(
            state: str, message: str | None = None, result: Mapping[str, Any] | None = None
        ) -> None:
            rotation = {"request": request, "state": state, "message": message, "result": result}
            self._objects.merge_status(fairlead, {"rotation": rotation})

        tell(RUNNING)
        try:
            result = rotate.here(self._inside(), deployed, subject, progress=Logged(log))
        except FairleadError as error:
            message = str(error)[: statuses.LONGEST]
            tell(REFUSED if isinstance(error, UsageError) else FAILED, message)
            reports.write(
                self._objects, fairlead, "Warning", "NotRotated", f"not rotated: {message}"
            )
        else:
            tell(DONE, result=result)
            reports.write(self._objects, fairlead, "Normal", "Rotated", f"{subject} was rotated")

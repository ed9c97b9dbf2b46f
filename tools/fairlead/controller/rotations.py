"""Rotates a token or the certificate when the object Fairlead asks for it, and says in its status
how that ended."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Logged
from fairlead.controller import reports
from fairlead.kube import clients
from fairlead.operations import object_following, rotate
from fairlead.operations.object_following import DONE, FAILED, REFUSED, RUNNING

log = logging.getLogger(__name__)

_LONGEST = 1000
"""The most characters of a message."""


def carry_out(objects: clients.Objects, cluster: Cluster, fairlead: Mapping[str, Any]) -> None:
    """Do what is asked for and not answered yet. One that was interrupted is done again, which ends
    it. Raises ApiServerError if the status cannot be written.
    """
    request = object_following.rotation_due(fairlead)
    if request is None:
        return

    def tell(
        state: str, message: str | None = None, result: Mapping[str, Any] | None = None
    ) -> None:
        rotation = {"request": request, "state": state, "message": message, "result": result}
        objects.merge_status(fairlead, {"rotation": rotation})

    what = request.partition(" ")[0]
    tell(RUNNING)
    try:
        result = rotate.here(cluster, what, progress=Logged(log))
    except FairleadError as error:
        message = str(error)[:_LONGEST]
        tell(REFUSED if isinstance(error, UsageError) else FAILED, message)
        reports.write(objects, fairlead, "Warning", "NotRotated", f"not rotated: {message}")
    else:
        tell(DONE, result=result)
        reports.write(objects, fairlead, "Normal", "Rotated", f"{what} was rotated")

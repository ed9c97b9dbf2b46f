"""Writes Events about the object Fairlead."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal

from fairlead.deployment.names import CONTROLLER, NAMESPACE
from fairlead.kube import clients
from fairlead.kube.errors import ApiServerError
from fairlead.kube.events import event
from fairlead.kube.own_kinds import FAIRLEADS, NAME, VERSION

log = logging.getLogger(__name__)


def write(
    objects: clients.Objects,
    fairlead: Mapping[str, Any],
    kind: Literal["Normal", "Warning"],
    reason: str,
    message: str,
) -> None:
    """Log the message, and write it as an Event of this object. A failure to write it is only
    logged.
    """
    log.log(logging.INFO if kind == "Normal" else logging.WARNING, "%s", message)
    about = {
        "apiVersion": VERSION,
        "kind": FAIRLEADS[1],
        "name": NAME,
        "uid": fairlead["metadata"]["uid"],
        "namespace": NAMESPACE,
    }
    try:
        objects.create(event(kind, reason, message, about=about, component=CONTROLLER))
    except ApiServerError as error:
        log.warning("the Event could not be written: %s", error)

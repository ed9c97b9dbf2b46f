"""Makes the first credentials of a cluster, which its servers and the controller wait for to
start."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from pydantic import ValidationError

from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment import history_log, manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import LIFECYCLE_LEASE, NAMESPACE, TLS_SECRET
from fairlead.keeper.lease import Lease
from fairlead.kube import clients
from fairlead.kube.own_kinds import FAIRLEADS, NAME
from fairlead.operations import deployed_state, object_following
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

log = logging.getLogger(__name__)

_PAUSE = 2.0
"""Seconds between two looks."""


def are_mounted(
    objects: clients.Objects, files: Sequence[Path], *, replica: str, stop: Event
) -> bool:
    """Whether the files of the certificate are there. If not, return when their Secret is there, or
    `stop` is set, and make the Secrets if nothing was ever deployed: a kubelet mounts them at once
    when a container starts again, and else within a minute or two. `replica` is the name of this
    one.
    """
    lease = Lease(objects, replica, name=LIFECYCLE_LEASE, restored=True)
    trouble = ""
    while not all(file.exists() for file in files):
        try:
            if is_due(objects):
                with lease.attempt() as leading:
                    if leading and is_due(objects):
                        make(objects)
            if stop.is_set() or objects.get("v1", "Secret", TLS_SECRET, NAMESPACE):
                log.info("starting again, so that the certificate is mounted")
                return False
        except FairleadError as error:
            if str(error) != trouble:
                log.warning("there are no credentials yet: %s", error)
            trouble = str(error)
        stop.wait(_PAUSE)
    return True


def is_due(objects: clients.Objects) -> bool:
    """Whether the settings are an object, and nothing was deployed. The Secret of the certificate
    is made last, so without it nothing has started yet. Raises ApiServerError.
    """
    return (
        objects.get("v1", "Secret", TLS_SECRET, NAMESPACE) is None
        and object_following.followed(objects) is not None
        and deployed_state.config_map(objects) is None
        and not history_log.read(objects)
    )


def make(objects: clients.Objects) -> None:
    """Make the Secrets, by the settings of the object Fairlead. Raises FairleadError, also for
    wrong settings.
    """
    fairlead = object_following.followed(objects) or {}
    try:
        settings = Settings.model_validate(fairlead.get("spec") or {})
    except ValidationError as error:
        raise UsageError(f"{FAIRLEADS[1]} {NAME}: {error}") from error
    credentials = Credentials.fresh(valid=settings.certificates.valid).opening(settings.scopes())
    policies = PolicySet.load(Settings(certificates=settings.certificates))
    for manifest in manifests.render_secrets(policies, credentials):
        objects.apply(manifest)
    log.info("made the first credentials")

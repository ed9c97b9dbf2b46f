"""Makes the first credentials of a cluster, which its servers and the controller wait for to
start."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Logged
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import LIFECYCLE_LEASE, NAMESPACE, TLS_SECRET, TOKEN_SECRET
from fairlead.keeper.lease import Lease
from fairlead.kube import clients
from fairlead.kube.own_kinds import POLICIES, VERSION
from fairlead.operations import deployed_state, history, object_following
from fairlead.policy import parameter_rules
from fairlead.policy.policy_objects import PolicyObjects

log = logging.getLogger(__name__)

_PAUSE = 2.0
"""Seconds between two looks."""


def until_mounted(
    objects: clients.Objects, files: Sequence[Path], *, replica: str, stop: Event
) -> None:
    """Return when the files of the certificate are there, or `stop` is set. Meanwhile, make the
    Secrets if nothing was ever deployed. `replica` is the name of this one.
    """
    lease = Lease(objects, replica, name=LIFECYCLE_LEASE, restored=True)
    trouble = ""
    while not all(file.exists() for file in files) and not stop.is_set():
        try:
            if is_due(objects):
                with lease.attempt() as leading:
                    if leading and is_due(objects):
                        make(objects)
        except FairleadError as error:
            if str(error) != trouble:
                log.warning("there are no credentials yet: %s", error)
            trouble = str(error)
        stop.wait(_PAUSE)


def is_due(objects: clients.Objects) -> bool:
    """Whether the settings are an object, and nothing was deployed. Raises ApiServerError."""
    secrets = [objects.get("v1", "Secret", name, NAMESPACE) for name in (TOKEN_SECRET, TLS_SECRET)]
    return (
        not any(secrets)
        and object_following.followed(objects) is not None
        and deployed_state.config_map(objects) is None
        and not history.entries(objects)
    )


def make(objects: clients.Objects) -> None:
    """Make the Secrets, by the settings of the object Fairlead. Raises FairleadError, also for
    wrong settings.
    """
    fairlead = object_following.followed(objects) or {"metadata": {}}
    written = PolicyObjects.read(fairlead, objects.list(VERSION, POLICIES[1], None))
    policies = written.policy_set(parameter_rules.rules(Logged(log)))
    settings = policies.settings
    credentials = Credentials.fresh(valid=settings.certificates.valid).opening(settings.scopes())
    for manifest in manifests.render_secrets(policies, credentials):
        objects.apply(manifest)
    log.info("made the first credentials")

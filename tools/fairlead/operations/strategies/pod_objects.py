"""The objects of a deployment with pods: their credentials, what they are rendered from, and what
later deployments do not need of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import UsageError
from fairlead.deployment import controller, engine_names, manifests
from fairlead.deployment.credentials import Credentials, Tls
from fairlead.deployment.names import (
    ACCESS_ENDS,
    NAMESPACE,
    OPA,
    POLICIES,
    scoped_secret,
)
from fairlead.deployment.sidecars import Sidecar
from fairlead.kube import clients
from fairlead.operations import deployed_state, drift, transient_access
from fairlead.operations.strategies.base import Key, Operation, Revision, key_of
from fairlead.policy import bundles
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from fairlead.settings.services import SCOPES

NOBODY = Credentials("", b"", b"", b"")
"""Stands for credentials where only the names of objects count."""
_LAST = ("v1", "ServiceAccount", OPA, NAMESPACE)
"""The object of a deployment with pods that is deleted last."""


def credentials(operation: Operation, settings: Settings) -> Credentials:
    """The deployed credentials, or new ones if there are none. Raises ApiServerError."""
    valid = settings.certificates.valid
    deployed = None if operation.unprivileged else deployed_state.credentials(operation.objects)
    present = deployed or Credentials.fresh(valid=valid)
    if present.remaining <= timedelta(0):  # nobody can be refused for it any more
        present = present.having(Tls.fresh(valid))
    return present.opening(settings.scopes())


def deployed(operation: Operation) -> Credentials:
    """The deployed credentials. Raises UsageError if there are none."""
    present = deployed_state.credentials(operation.objects)
    if present is None:
        raise UsageError(
            f"cluster {operation.cluster.name} has lost OPA's token or certificate: run `fairlead "
            "deploy`"
        )
    return present


def revision(
    cluster: Cluster, policies: PolicySet, present: Credentials, sidecar: Sidecar
) -> Revision:
    """The policies, which are staged, with all objects of their deployment."""
    objects = manifests.render_objects(
        policies,
        present,
        webhook_url=cluster.webhook_url(sidecar),
        controller_url=cluster.controller_url(),
        sidecar=sidecar,
    )
    objects += _of_access(cluster.objects(), policies)
    (manifest,) = (entry for entry in objects if entry["metadata"]["name"] == POLICIES)
    return Revision(policies, manifest, objects)


def _of_access(objects: clients.Objects, policies: PolicySet) -> list[dict[str, Any]]:
    """The objects of transient access that depend on what the API server has."""
    if policies.settings.access is None:
        off = transient_access.has_kinds(objects)
        return manifests.render_access(policies, controller.OFF) if off else []
    return manifests.render_access(policies, controller.REQUESTER) if _mutates(objects) else []


def _mutates(objects: clients.Objects) -> bool:
    """Whether the API server has MutatingAdmissionPolicies."""
    _, kind, _, _ = controller.REQUESTER_OBJECTS[-1]
    return objects.serves({"apiVersion": controller.ADMISSION, "kind": kind})


def superfluous(operation: Operation, new: Revision, present: Credentials) -> list[Key]:
    """The objects of another sidecar and of policies that are gone, which a deployment deletes."""
    guards = drift.superseded(operation.cluster, operation.objects, present, new.objects)
    deployments = {item["metadata"]["name"] for item in new.objects if item["kind"] == "Deployment"}
    keys: list[Key] = [(*guard, None) for guard in guards]
    if ACCESS_ENDS not in deployments:
        keys += controller.OF_ACCESS
    requester = controller.REQUESTER_OBJECTS if _mutates(operation.objects) else ()
    rendered = {key_of(item) for item in new.objects}
    keys += [key for key in (*controller.OFF_OBJECTS, *requester) if key not in rendered]
    keys += [
        ("v1", "Secret", scoped_secret(scope), NAMESPACE)
        for scope in SCOPES
        if scope not in present.scoped
    ]
    return [*keys, *controller.FORMER]


def left(operation: Operation, manifests: Iterable[dict[str, Any]]) -> list[Key]:
    """The objects of a deployment with pods that a deployment without any leaves behind, in the
    order in which to delete them. The validating webhooks go first, as they would refuse pods
    without the mutating ones, and what they ask after all webhooks.
    """
    cluster, config_map = operation.cluster, operation.config_map
    if config_map is None:
        return []
    # An interrupted deployment without pods may have left some, and the last one among them.
    is_asked = engine_names.of(config_map) in engine_names.ASKED
    if not is_asked and operation.objects.get(*_LAST) is None:
        return []
    policies = PolicySet.deployed(
        bundles.modules_of(config_map.get("data") or {}), drift.settings(config_map)
    )
    present = deployed_state.credentials(operation.objects) or NOBODY
    rendered = revision(cluster, policies, present, cluster.sidecar).objects
    keys = {key_of(manifest) for manifest in manifests}
    left = [key for manifest in reversed(rendered) if (key := key_of(manifest)) not in keys]
    return [*left, *controller.FORMER]


def unreadable(config_map: Mapping[str, Any]) -> Revision:
    """What a ConfigMap of policies brings whose settings cannot be read: the policies alone."""
    bundle = bundles.Bundle(config_map.get("data") or {})
    return Revision(PolicySet(Settings(), bundle), config_map, ())

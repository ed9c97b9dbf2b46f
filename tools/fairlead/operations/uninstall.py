"""Removes Fairlead's objects from a cluster, and nothing else. The webhooks go first, so that no
pod waits.

fairlead.deployment.ownership says which they are. They are in the namespace `fairlead`, or, for
kinds without namespaces, named `fairlead`, `fairlead-...`, `fairlead....` or `....fairlead.dev`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.clusters import contexts
from fairlead.clusters.base import Cluster
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.deployment import ownership
from fairlead.deployment.names import LIFECYCLE_LEASE, NAMESPACE, OPA_PODS
from fairlead.keeper.lease import Lease
from fairlead.kube import clients, discovery
from fairlead.kube.errors import Refused
from fairlead.kube.own_kinds import FAIRLEADS, NAME, VERSION
from fairlead.operations import finding_reports, object_following, transient_access
from fairlead.operations.strategies import base

DEADLINE = 180.0
"""Seconds in which the namespace and its pods have to be gone."""

# The order of removal; any other kind in the namespace comes before the Deployment. What validates
# goes first, as it would refuse pods without what mutates. API servers refuse requests by a binding
# whose parameters are gone, so they must know that it is deleted before anything else is.
_FIRST = (
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "MutatingAdmissionPolicy",
)
_LAST = (
    "Deployment",
    "ConfigMap",
    "Secret",
    "CustomResourceDefinition",
    "ClusterRoleBinding",
    "ClusterRole",
    "RoleBinding",
    "Role",
    "ServiceAccount",
)

# Objects that the cluster itself puts into every namespace, or beside ours.
_MADE_BY_CLUSTER = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_KINDS_OF_CLUSTER = {"Event", "Endpoints", "EndpointSlice", "PodMetrics"}


@dataclass(frozen=True)
class Uninstalled:
    """`objects` has a {kind, name, namespace, removed} each; `remaining` names what else is in the
    namespace.
    """

    objects: list[dict[str, Any]]
    remaining: list[str]


def uninstall(cluster: Cluster, *, progress: Progress) -> Uninstalled:
    """End all transient access, and remove every object that Fairlead made, and the namespace if
    nothing else is in it. Safe to repeat.

    Raises FairleadError if something cannot be removed; what was removed before stays removed.
    """
    objects = clients.Objects(cluster.kubeconfig)
    kinds = objects.kinds()
    transient_access.end_all(objects, progress=progress)
    uids = ownership.recorded(objects)
    removed = _released(objects, progress)
    ours, remaining = _listed(objects, kinds, uids)
    ours.sort(key=lambda entry: _order(entry[0].name))
    for name, of_kind in itertools.groupby(ours, key=lambda entry: entry[0].name):
        has_parameters = False
        for kind, manifest in of_kind:
            progress.update("uninstall", f"removing {name} {manifest['metadata']['name']}")
            _remove(objects, kind, manifest)
            removed.append(_row(name, manifest, removed=True))
            has_parameters |= "paramRef" in manifest.get("spec", {})
        if has_parameters:
            base.wait_for_api_servers(progress)
    removed += [
        _row(report["kind"], report, removed=True) for report in finding_reports.remove(objects)
    ]
    namespace = objects.get("v1", "Namespace", NAMESPACE)
    if namespace is not None and ownership.is_ours("Namespace", namespace, uids=uids):
        if not remaining:
            progress.update("uninstall", f"removing Namespace {NAMESPACE}")
            objects.delete("v1", "Namespace", NAMESPACE)
            waiting.until(
                lambda: objects.get("v1", "Namespace", NAMESPACE) is None,
                deadline=DEADLINE,
                what=f"namespace {NAMESPACE} is gone",
                pause=0.2,
            )
        removed.append(_row("Namespace", namespace, removed=not remaining))
    cluster.stop()
    contexts.forget_copy(cluster.kubeconfig)
    progress.finish("uninstall", f"removed {sum(row['removed'] for row in removed)} objects")
    return Uninstalled(removed, remaining)


def _released(objects: clients.Objects, progress: Progress) -> list[dict[str, Any]]:
    """Remove the object Fairlead, without which a controller puts nothing back. None is at work
    when this returns.
    """
    fairlead = object_following.followed(objects)
    if fairlead is None:
        return []
    progress.update("uninstall", f"removing {FAIRLEADS[1]} {NAME}")
    with Lease(objects, "uninstall", name=LIFECYCLE_LEASE).held():
        objects.delete(VERSION, FAIRLEADS[1], NAME)
    return [_row(FAIRLEADS[1], fairlead, removed=True)]


def _remove(objects: clients.Objects, kind: discovery.Kind, manifest: Mapping[str, Any]) -> None:
    metadata = manifest["metadata"]
    if kind.name == "Deployment" and metadata["name"] == "opa":
        _remove_deployment(objects)
    else:
        objects.delete(kind.api_version, kind.name, metadata["name"], metadata.get("namespace"))


def _remove_deployment(objects: clients.Objects) -> None:
    """Remove the Deployment, and end its pods at once: nobody calls them any more, and they would
    wait for 95 s.

    A kubelet keeps to the grace period that a pod was first given. So the pods are orphaned first,
    and then deleted with a short one.
    """
    for kind in ("Deployment", "ReplicaSet"):
        for owner in objects.list("apps/v1", kind, NAMESPACE, OPA_PODS):
            objects.delete("apps/v1", kind, owner["metadata"]["name"], NAMESPACE, orphan=True)
        waiting.until(
            functools.partial(_none_left, objects, kind),
            deadline=DEADLINE,
            what=f"the {kind} of OPA is gone",
            pause=0.1,
        )
    for pod in objects.list("v1", "Pod", NAMESPACE, OPA_PODS):
        objects.delete("v1", "Pod", pod["metadata"]["name"], NAMESPACE, grace=1)


def _none_left(objects: clients.Objects, kind: str) -> bool:
    return not objects.list("apps/v1", kind, NAMESPACE, OPA_PODS)


def _listed(
    objects: clients.Objects, kinds: Iterable[discovery.Kind], uids: Collection[str]
) -> tuple[list[tuple[discovery.Kind, dict[str, Any]]], list[str]]:
    """Our objects, and the names of everything else in our namespace."""
    ours, remaining = [], []
    for kind in kinds:
        if "list" not in kind.verbs or kind.name in _KINDS_OF_CLUSTER:
            continue
        if not kind.namespaced:
            if kind.name in _FIRST + _LAST:
                manifests = objects.list(kind.api_version, kind.name, None)
                ours += [
                    (kind, manifest)
                    for manifest in manifests
                    if ownership.is_named_ours(manifest)
                    and ownership.is_ours(kind.name, manifest, uids=uids)
                ]
            continue
        try:
            manifests = objects.list(kind.api_version, kind.name, NAMESPACE)
        except Refused as error:
            if error.status not in (403, 404, 405):
                raise
            if error.status == 403:
                remaining.append(f"{kind.name} (may not be listed)")
            continue
        for manifest in manifests:
            metadata = manifest["metadata"]
            if metadata.get("ownerReferences") or (kind.name, metadata["name"]) in _MADE_BY_CLUSTER:
                continue
            if ownership.is_ours(kind.name, manifest, uids=uids):
                ours.append((kind, manifest))
            else:
                remaining.append(f"{kind.name} {metadata['name']}")
    return ours, remaining


def _order(kind: str) -> int:
    if kind in _FIRST:
        return _FIRST.index(kind) - len(_FIRST)
    return _LAST.index(kind) + 1 if kind in _LAST else 0


def _row(kind: str, manifest: Mapping[str, Any], *, removed: bool) -> dict[str, Any]:
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace")
    return {"kind": kind, "name": metadata["name"], "namespace": namespace, "removed": removed}

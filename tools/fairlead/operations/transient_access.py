"""Transient access in a deployment: the controllers, the wait until one gives access, and what must
end before they go."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from fairlead.access import bindings
from fairlead.access.bindings import (
    EFFECTIVE,
    GROUP,
    KINDS,
    RBAC,
    VERSION,
    Kind,
    condition,
    owner_uid,
)
from fairlead.clusters.base import Cluster
from fairlead.common import texts, waiting
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import deployed_state
from fairlead.settings.access import Access

_SHOWN = 5
"""Transient bindings that a sentence names."""
_DEADLINE = 60.0
"""Seconds within which one works: one that takes over from a killed one waits for 8 s."""


def controllers(cluster: Cluster) -> list[dict[str, Any]]:
    """Each controller: {pod, url, pid, healthy, reasons, leading, bindings}. `leading` says whether
    it is the one that gives access, and `bindings` how many there are by its decisions; both are
    None without the setting `access`, or if it does not answer.
    """
    return [
        {**row, **{field: (access or {}).get(field) for field in ("leading", "bindings")}}
        for row in (deployed_state.report(server, "access") for server in cluster.controllers())
        for access in [row.pop("access")]
    ]


def until_one_works(cluster: Cluster, *, progress: Progress) -> None:
    """Return when a controller holds the Lease. Raises FairleadError with their reasons if none
    does in time.
    """

    def works() -> bool:
        rows = controllers(cluster)
        if any(row["leading"] for row in rows):
            return True
        reasons = [f"{row['pod']}: {reason}" for row in rows for reason in row["reasons"]]
        raise FairleadError("; ".join(reasons) or "see `fairlead logs controller`")

    progress.update("access", "waiting until its controller works")
    waiting.until(works, deadline=_DEADLINE, what="a controller of access works", pause=0.1)
    progress.finish("access", "its controller works")


def outside(objects: clients.Objects, settings: Access) -> list[str]:
    """A sentence about the access in force by roles that the settings do not name (any more): it
    goes on until its end, and whoever narrows the list may mean to end it.
    """
    if settings.every_role:
        return []
    left = [
        parent
        for kind in KINDS
        for parent in _parents(objects, kind)
        if _is_effective(parent) and parent["spec"]["roleRef"]["name"] not in settings.roles
    ]
    if not left:
        return []
    grants = [
        f"{bindings.subjects(parent['spec'])} {bindings.role(parent['spec']['roleRef'])} until "
        f"{parent['spec']['validUntil']} by {_name(parent)}"
        for parent in left[:_SHOWN]
    ]
    more = [f"and {len(left) - _SHOWN} more"] if len(left) > _SHOWN else []
    first = left[0]["metadata"]
    place = f" -n {first['namespace']}" if first.get("namespace") else ""
    return [
        texts.printable(
            f"access.roles leaves out roles that are given, and these stay until their end: "
            f"{'; '.join([*grants, *more])}. To end one now, run `fairlead access revoke "
            f"{first['name']}{place}`"
        )
    ]


def require_ended(objects: clients.Objects) -> None:
    """Raises UsageError if somebody has transient access, which nothing would end any more without
    its controller.
    """
    effective = in_force(objects)
    if effective:
        first = _name(effective[0])
        suffix = ", ..." if len(effective) > 1 else ""
        raise UsageError(
            f"access: {texts.counted(len(effective), 'transient binding')} ({first}{suffix}) would "
            "give access for good without the controller: end all by `kubectl delete "
            "transientrolebindings --all -A` and `kubectl delete transientclusterrolebindings "
            "--all`, or leave the setting `access` on"
        )


def in_force(objects: clients.Objects) -> list[dict[str, Any]]:
    """The transient bindings that give access at present, as far as the user may see them."""
    return [parent for kind in KINDS for parent in _parents(objects, kind) if _is_effective(parent)]


def end_all(objects: clients.Objects, *, progress: Progress) -> None:
    """Delete all transient bindings, and return when the cluster has deleted what came of them.
    Raises FairleadError if that takes too long.
    """
    for kind in KINDS:
        parents = _parents(objects, kind)
        for parent in parents:
            name, namespace = parent["metadata"]["name"], parent["metadata"].get("namespace")
            progress.update("access", f"ending {name}")
            objects.delete(f"{GROUP}/{VERSION}", kind.parent, name, namespace)
        if parents:
            waiting.until(
                functools.partial(_none_left, objects, kind),
                deadline=_DEADLINE,
                what=f"every {kind.child} of transient access is gone",
                pause=0.1,
            )


def _is_effective(parent: Mapping[str, Any]) -> bool:
    return condition(parent, EFFECTIVE).get("status") == "True"


def _name(parent: Mapping[str, Any]) -> str:
    metadata = parent["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


def has_kinds(objects: clients.Objects) -> bool:
    """Whether the cluster has the kinds of transient access, as far as the user may know."""
    return any(_has(objects, kind) for kind in KINDS)


def _has(objects: clients.Objects, kind: Kind) -> bool:
    # Without this look, the client would read all that the API server serves again.
    name = f"{kind.parents.name}.{kind.parents.group}"
    try:
        definition = objects.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
    except Refused as error:
        if error.status not in (403, 404):
            raise
        return False
    return definition is not None


def _parents(objects: clients.Objects, kind: Kind) -> list[dict[str, Any]]:
    """The transient bindings of a kind; none if the cluster does not have the kind, or if the user
    may not read that.
    """
    return objects.visible(f"{GROUP}/{VERSION}", kind.parent, None) if _has(objects, kind) else []


def _none_left(objects: clients.Objects, kind: Kind) -> bool:
    children = objects.list(f"{RBAC}/v1", kind.child, None)
    names = [child["metadata"]["name"] for child in children if owner_uid(child)]
    if names:
        raise FairleadError(f"{', '.join(names[:5])} {'is' if len(names) == 1 else 'are'} there")
    return True

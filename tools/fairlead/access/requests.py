"""What people do with transient role bindings: ask for access, approve it, end it early, and see
what there is and what happened."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead.access import bindings, instants
from fairlead.access.bindings import (
    EVERYWHERE,
    GROUP,
    KINDS,
    LOCAL,
    RBAC,
    VERSION,
    Key,
    kind_of,
)
from fairlead.access.trail import CLUSTER_NAMESPACE
from fairlead.common import waiting
from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment.names import ACCESS
from fairlead.kube import clients, identity

API = f"{GROUP}/{VERSION}"
GONE = 10.0
"""Seconds within which a revoked binding has to be gone."""
GROUPS = 100
"""The most groups of a requester (15-access.yaml.j2)."""


@dataclass(frozen=True)
class Request:
    """Access that somebody asks for. `key` is the namespace (empty for the whole cluster) and the
    name of the transient binding, `role` its kind and name, and `subjects` are as in a RoleBinding.
    """

    key: Key
    role: tuple[str, str]
    subjects: Sequence[Mapping[str, str]]
    begin: datetime
    length: timedelta
    reason: str | None
    needs_approval: bool


def listed(objects: clients.Objects, namespace: str | None = None) -> list[dict[str, Any]]:
    """The transient bindings of a namespace, by default of the cluster: {namespace, name, role,
    subjects, validFrom, validUntil, left, effective, why, message, requestedBy, approvedBy,
    reason}. `left` is in seconds: until the end, or None if access has ended. Raises Refused.
    """
    kinds = (LOCAL,) if namespace else KINDS
    return [
        _line(binding) for kind in kinds for binding in objects.list(API, kind.parent, namespace)
    ]


def grant(objects: clients.Objects, request: Request) -> dict[str, Any]:
    """Create the transient binding in the name of the user of the kubeconfig. Returns it as
    `listed` does. Raises Refused with the words of the guards.
    """
    namespace, name = request.key
    user, groups = identity.user_and_groups(objects)
    kind, role = request.role
    spec: dict[str, Any] = {
        "validFrom": _spelled(request.begin),
        "validUntil": _spelled(request.begin + request.length),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [dict(subject) for subject in request.subjects],
    }
    spec |= {"reason": request.reason} if request.reason else {}
    spec |= {"needsApproval": True} if request.needs_approval else {}
    spec |= {"requestedBy": user} if user else {}
    spec |= {"requestedByGroups": sorted(groups)[:GROUPS]} if groups else {}
    manifest = {
        "apiVersion": API,
        "kind": kind_of(request.key).parent,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": spec,
    }
    return _line(objects.create(manifest))


def approve(objects: clients.Objects, key: Key) -> dict[str, Any]:
    """Approve a transient binding as the user of the kubeconfig. Returns it as `listed` does.
    Raises UsageError if there is none, Refused with the words of the guards.
    """
    parent = _existing(objects, key)
    user = identity.user(objects)
    if not user:
        raise FairleadError("the API server does not say who you are: ask for system:basic-user")
    objects.merge(parent, {"approvedBy": user})
    return _line(_existing(objects, key))


def revoke(objects: clients.Objects, key: Key) -> dict[str, Any]:
    """End access now: delete the transient binding, and return when its binding is gone, as
    {namespace, name, seconds}. Raises UsageError if there is none, FairleadError if the binding is
    not gone in time.
    """
    namespace, name = key
    kind = kind_of(key)
    _existing(objects, key)
    began = time.monotonic()
    objects.delete(API, kind.parent, name, namespace or None)

    def is_deleted() -> bool:
        child = objects.get(f"{RBAC}/v1", kind.child, name, namespace or None)
        return child is None or not any(
            owner["apiVersion"] == API for owner in child["metadata"].get("ownerReferences") or ()
        )

    expectation = f"{kind.child} {name} is gone: delete it as an administrator"
    waiting.until(is_deleted, deadline=GONE, what=expectation)
    return {"namespace": namespace, "name": name, "seconds": round(time.monotonic() - began, 2)}


def history(objects: clients.Objects, namespace: str | None = None) -> list[dict[str, Any]]:
    """What happened to transient bindings, by the Events of the controller, the oldest first:
    {time, namespace, name, event, message}. API servers keep Events for an hour, unless
    `--event-ttl` says otherwise. Raises Refused.
    """
    lines = []
    for event in objects.list("v1", "Event", namespace):
        if (event.get("source") or {}).get("component") != ACCESS:
            continue
        about = event["involvedObject"]
        everywhere = about["kind"] == EVERYWHERE.parent
        if everywhere and namespace not in (None, CLUSTER_NAMESPACE):
            continue
        lines.append(
            {
                "time": event["firstTimestamp"],
                "namespace": "" if everywhere else about["namespace"],
                "name": about["name"],
                "event": event["reason"],
                "message": event["message"],
                "order": event["metadata"]["resourceVersion"],
            }
        )
    lines.sort(key=lambda line: (line["time"], int(line.pop("order"))))
    return lines


def _existing(objects: clients.Objects, key: Key) -> dict[str, Any]:
    kind = kind_of(key)
    parent = objects.get(API, kind.parent, key[1], key[0] or None)
    if parent is None:
        scope = f" in namespace {key[0]}" if key[0] else ""
        raise UsageError(
            f"there is no {kind.parent} {key[1]}{scope}: `fairlead access list` shows all"
        )
    return parent


def _line(parent: Mapping[str, Any]) -> dict[str, Any]:
    metadata, spec = parent["metadata"], parent["spec"]
    effective = bindings.condition(parent, bindings.EFFECTIVE)
    remaining = (instants.nanoseconds(spec["validUntil"]) - time.time_ns()) / instants.SECOND
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "role": f"{spec['roleRef']['kind']} {spec['roleRef']['name']}",
        "subjects": [_named(subject) for subject in spec["subjects"]],
        "validFrom": spec["validFrom"],
        "validUntil": spec["validUntil"],
        "left": round(remaining, 1) if remaining > 0 else None,
        "effective": effective.get("status") == "True",
        "why": effective.get("reason"),
        "message": effective.get("message"),
        "requestedBy": spec.get("requestedBy"),
        "approvedBy": parent.get("approvedBy"),
        "reason": spec.get("reason"),
    }


def _named(subject: Mapping[str, str]) -> str:
    prefix = f"{subject['namespace']}/" if subject.get("namespace") else ""
    return f"{subject['kind']} {prefix}{subject['name']}"


def _spelled(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""What people do with transient role bindings: ask for access, approve it, end it early, and see
what there is and what happened."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
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
from fairlead.kube.errors import NotServed

API = f"{GROUP}/{VERSION}"
GONE = 10.0
"""Seconds within which a revoked binding has to be gone."""
SETTLED = 3.0
"""Seconds within which a controller says what becomes of access that was asked for."""
GROUPS, GROUPS_SIZE = 100, 16_384
"""The most groups of a requester, and their bytes in all (15-access.yaml.j2)."""


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
    with _switched_on():
        return [
            _line(binding)
            for kind in kinds
            for binding in objects.list(API, kind.parent, namespace)
        ]


def grant(objects: clients.Objects, request: Request) -> dict[str, Any]:
    """Create the transient binding in the name of the user of the kubeconfig. Returns it as
    `listed` does. Raises Refused with the words of the guards, UsageError if it would give no
    access.
    """
    namespace, name = request.key
    begin, end = _window(request)
    user, groups = identity.user_and_groups(objects)
    kind, role = request.role
    spec: dict[str, Any] = {
        "validFrom": begin,
        "validUntil": end,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [dict(subject) for subject in request.subjects],
    }
    spec |= {"reason": request.reason} if request.reason else {}
    spec |= {"needsApproval": True} if request.needs_approval else {}
    spec |= {"requestedBy": user} if user else {}
    spec |= {"requestedByGroups": fitting} if (fitting := _fitting(groups)) else {}
    manifest = {
        "apiVersion": API,
        "kind": kind_of(request.key).parent,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": spec,
    }
    with _switched_on():
        return _line(objects.create(manifest))


def settled(objects: clients.Objects, key: Key) -> tuple[dict[str, Any] | None, str | None]:
    """The transient binding once a controller has said what becomes of it, as `listed` has it, and
    why it gives no access and will give none. None if no controller says so within SETTLED seconds,
    or if the user may not read it.
    """

    def is_settled() -> tuple[dict[str, Any], str | None] | None:
        parent = _existing(objects, key)
        effective, failed = (
            bindings.condition(parent, kind) for kind in (bindings.EFFECTIVE, bindings.FAILED)
        )
        if effective.get("reason") in (None, "NotObserved") and failed.get("status") != "True":
            return None
        is_failed = failed.get("status") == "True"
        return _line(parent), f"{failed['reason']}: {failed['message']}" if is_failed else None

    try:
        return waiting.until(is_settled, deadline=SETTLED, what="a controller tells", pause=0.1)
    except FairleadError:
        return None, None


def _window(request: Request) -> tuple[str, str]:
    """The times of the window. Raises UsageError if nobody would get access in it."""
    begin = instants.of(request.begin)
    end = begin + request.length // timedelta(microseconds=1) * 1000
    try:
        times = instants.spelled(begin), instants.spelled(end)
    except OverflowError as error:
        raise UsageError("the window ends after the year 9999") from error
    if end <= time.time_ns():
        raise UsageError(
            f"the window is over: it ends at {times[1]}, so nobody would get access. Give a later "
            "--from or a longer --for"
        )
    return times


def _fitting(groups: Sequence[str]) -> list[str]:
    """The groups of a requester, as many as the schema takes (15-access.yaml.j2)."""
    fitting: list[str] = []
    size = 0
    for group in sorted(groups)[:GROUPS]:
        size += len(group.encode())
        fitting += [group] if size <= GROUPS_SIZE else []
    return fitting


@contextmanager
def _switched_on() -> Iterator[None]:
    """Raises UsageError for the refusal of an API server that does not have the kinds."""
    try:
        yield
    except NotServed as error:
        raise UsageError(
            "transient access is switched off in this cluster: write `access: {roles: [...]}` into "
            "fairlead.yaml, and run `fairlead deploy` (docs/access.md)"
        ) from error


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
                "time": event["firstTimestamp"] or event["metadata"]["creationTimestamp"],
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
    with _switched_on():
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

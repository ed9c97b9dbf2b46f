"""Clusters whose settings and policies are the objects Fairlead and Policy, which the controller
brings into force. A command changes the objects there, and waits for the controller."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import waiting
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.kube.own_kinds import FAIRLEADS, GROUP, NAME, PINNED, POLICIES, ROTATE, VERSION
from fairlead.policy import parameter_rules, policy_objects
from fairlead.policy.policy_objects import PolicyObjects
from fairlead.policy.policy_set import PolicySet

NO_CONTROLLER = (
    f"the settings and policies of this cluster are objects ({FAIRLEADS[1]} {NAME}), and with its "
    "engine no controller runs: change the objects, and run `fairlead deploy`; or delete "
    f"{FAIRLEADS[1]} {NAME}, to push files"
)
"""Why `fairlead push` and `rollback` cannot change the objects of such a cluster."""

INSTEAD = (
    f"the settings and policies are the objects of the cluster ({FAIRLEADS[1]} {NAME}), and not "
    "those of files"
)
"""What `fairlead deploy` says there."""

_PUSHED = "fairlead.dev/pushed"
"""The label of the Policies that `fairlead push` applied, and deletes when their folder is gone."""
_MESSAGE = "fairlead.dev/message"
"""The annotation of Fairlead with what the history says of the change."""
UNPIN = (
    f"run `fairlead push`, or `kubectl annotate {FAIRLEADS[0]}.{GROUP} {NAME} "
    f"{PINNED}-`, and the objects count again"
)
"""How a pinned revision ends."""
_FAIRLEAD = {"apiVersion": VERSION, "kind": FAIRLEADS[1], "metadata": {"name": NAME}}
_DEADLINE = 180.0
"""Seconds within which the controller has brought a change into force, or refused it, and within
which it begins a rotation."""
_ROTATED = 900.0
"""Seconds within which it ends the rotation."""
RUNNING, DONE, REFUSED, FAILED = "Running", "Done", "Refused", "Failed"
"""The states of a rotation. One is refused if nobody can do it."""


def followed(objects: clients.Objects) -> dict[str, Any] | None:
    """The object Fairlead; None if there is none, or if the user may not see it. Raises
    FairleadError.
    """
    try:
        return objects.get(VERSION, FAIRLEADS[1], NAME)
    except Refused as error:
        if error.status not in (403, 404):
            raise
        return None


def message_of(fairlead: Mapping[str, Any]) -> str | None:
    """What the history is to say of a change of the objects; None for nothing."""
    message = (fairlead["metadata"].get("annotations") or {}).get(_MESSAGE)
    return str(message) if message else None


def policy_set(objects: clients.Objects, progress: Progress) -> PolicySet | None:
    """The policies that the objects of a cluster make; None if its settings are no object. Raises
    WrongObjects, UsageError if a revision is pinned in their place, and FairleadError.
    """
    fairlead = followed(objects)
    if fairlead is None:
        return None
    if revision := policy_objects.pinned(fairlead):
        raise UsageError(f"revision {revision} is pinned in place of the objects: {UNPIN}")
    policies = objects.list(VERSION, POLICIES[1], None)
    return PolicyObjects.read(fairlead, policies).policy_set(parameter_rules.rules(progress))


def push(
    objects: clients.Objects, policies: PolicySet, message: str | None, progress: Progress
) -> list[str]:
    """Apply the objects of these policies and settings, with a message for the history, delete
    those of an earlier push that are gone, and return when the controller has brought them into
    force. Returns what went away, each as a sentence. Raises UsageError for policies that cannot be
    objects, and FairleadError with what the controller says if they do not come into force; what
    was in force before stays so.
    """
    manifests = policy_objects.of_policy_set(policies)
    if message:
        manifests[0]["metadata"]["annotations"] = {_MESSAGE: message}
    for manifest in manifests:
        progress.update("objects", f"applying {manifest['kind']} {manifest['metadata']['name']}")
        if manifest["kind"] == POLICIES[1]:
            manifest["metadata"]["labels"] = {_PUSHED: "true"}
        objects.apply(manifest)
    names = {manifest["metadata"]["name"] for manifest in manifests[1:]}
    gone = [
        policy["metadata"]["name"]
        for policy in objects.list(VERSION, POLICIES[1], None, f"{_PUSHED}=true")
        if policy["metadata"]["name"] not in names
    ]
    for name in gone:
        objects.delete(VERSION, POLICIES[1], name)
    objects.merge(manifests[0], {"metadata": {"annotations": {PINNED: None}}})
    progress.update("objects", "waiting until the controller has brought them into force")
    if wrong := list(_complaints(_judged(objects))):
        raise FairleadError("\n".join([*wrong, "what was in force before stays so"]))
    return [f"{POLICIES[1]} {name} is deleted: these policies do not have it" for name in gone]


def pin(objects: clients.Objects, revision: str, message: str | None, progress: Progress) -> None:
    """Pin a revision of the history in place of what the objects say, with a message for the
    history, and return when it is in force. Raises FairleadError with what the controller says if
    it does not come into force: what was before stays so, and the objects count.
    """
    annotations = {PINNED: revision, _MESSAGE: message}
    objects.merge(_FAIRLEAD, {"metadata": {"annotations": annotations}})
    progress.update("objects", "waiting until the controller has brought the revision into force")
    fairlead, *_ = _judged(objects)
    if fairlead["status"].get("revision") != revision:
        objects.merge(_FAIRLEAD, {"metadata": {"annotations": {PINNED: None}}})
        raise FairleadError("\n".join([*_complaints([fairlead]), "nothing is pinned"]))


def rotation_due(fairlead: Mapping[str, Any]) -> str | None:
    """The request of a rotation that nobody has answered; None if there is none."""
    request = (fairlead["metadata"].get("annotations") or {}).get(ROTATE)
    rotation = _rotation(fairlead)
    is_answered = rotation.get("request") == request and rotation.get("state") != RUNNING
    return None if not request or is_answered else str(request)


def rotate(cluster: Cluster, subject: str, progress: Progress) -> dict[str, Any]:
    """Ask the controller for a rotation (see `rotate.here`), and return its result when it is done.
    Meanwhile kubelets are made to mount what changes at once: by themselves, they take a minute for
    each step, and the controller may change no pods. Raises UsageError if it is refused,
    FairleadError if it fails or no controller begins it: then nothing is asked for any more.
    """
    objects, request = cluster.objects(), f"{subject} {secrets.token_hex(4)}"
    objects.merge(_FAIRLEAD, {"metadata": {"annotations": {ROTATE: request}}})

    def rotation() -> Mapping[str, Any]:
        fairlead = followed(objects)
        if fairlead is None:
            raise FairleadError(f"{FAIRLEADS[1]} {NAME} cannot be read")
        answer = _rotation(fairlead)
        if answer.get("request") == request:
            return answer
        if rotation_due(fairlead) == request:
            return {}
        message = "somebody else asked for another rotation meanwhile: run it again"
        return {"state": FAILED, "message": message}

    progress.update(subject, "waiting until the controller begins")
    try:
        waiting.until(
            lambda: bool(rotation()),
            deadline=_DEADLINE,
            what="the controller has begun: `fairlead status` says why not",
            pause=0.2,
        )
    except FairleadError:
        objects.merge(_FAIRLEAD, {"metadata": {"annotations": {ROTATE: None}}})
        raise
    progress.update(subject, "the controller rotates it")

    def ended() -> Mapping[str, Any] | None:
        answer = rotation()
        if answer.get("state") != RUNNING:
            return answer
        with suppress(FairleadError):  # whoever may not change pods waits longer
            cluster.refresh({})
        return None

    answer = waiting.until(
        ended, deadline=_ROTATED, what="the controller has rotated it", pause=0.5
    )
    if answer["state"] != DONE:
        raise (UsageError if answer["state"] == REFUSED else FairleadError)(answer["message"])
    progress.finish(subject, "rotated")
    return dict(answer["result"])


def _rotation(fairlead: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the status says of the last rotation; empty if there was none."""
    return (fairlead.get("status") or {}).get("rotation") or {}


def require_in_force(objects: clients.Objects, progress: Progress) -> None:
    """Return when the controller says that the objects are in force. Raises FairleadError with what
    it says of those that are not.
    """
    progress.update("objects", "waiting until the controller says that they are in force")

    def in_force() -> bool:
        if wrong := [*_complaints(_judged(objects))]:
            raise FairleadError("\n".join(wrong))
        return True

    waiting.until(in_force, deadline=_DEADLINE, what="the objects are in force", pause=0.2)


def _judged(objects: clients.Objects) -> list[dict[str, Any]]:
    """Fairlead and all Policies, once the controller has looked at them as they are. Raises
    FairleadError.
    """

    def judged() -> list[dict[str, Any]]:
        every = _every(objects)
        status = every[0].get("status") or {} if every else {}
        if status.get("objects") != policy_objects.fingerprint(every):
            raise FairleadError("; ".join(_complaints(every)) or "it has not seen them yet")
        return every

    return waiting.until(
        judged, deadline=_DEADLINE, what="the controller has looked at the objects", pause=0.2
    )


def problems(objects: clients.Objects) -> list[str]:
    """A sentence for each object that is not in force as it is; of a pinned revision, one for all
    of them. Raises FairleadError.
    """
    every = _every(objects)
    return list(_complaints(every[:1] if every and policy_objects.pinned(every[0]) else every))


def policies(objects: clients.Objects) -> list[dict[str, Any]]:
    """The Policies; empty without a Fairlead, as they have no effect then. Raises FairleadError."""
    return _every(objects)[1:]


def _every(objects: clients.Objects) -> list[dict[str, Any]]:
    """The object Fairlead and all Policies; empty without the first."""
    fairlead = followed(objects)
    return [fairlead, *objects.list(VERSION, POLICIES[1], None)] if fairlead else []


def _complaints(every: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the controller says of each object that is not in force as it is."""
    for value in every:
        name = f"{value['kind']} {value['metadata']['name']}"
        conditions = (value.get("status") or {}).get("conditions") or ()
        if not conditions:
            yield f"{name}: no controller has looked at it yet"
        for condition in conditions:
            if condition["status"] != "True":
                yield f"{name} is not in force: {condition['message']}"

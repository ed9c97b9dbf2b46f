"""What is checked before a binding is made, and how it is made, put right and taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairlead.access import bindings
from fairlead.access.bindings import (
    KINDS,
    RBAC,
    TRANSIENT,
    UNTIL,
    Key,
    Object,
    goes,
    kind_of,
    owner_uid,
    path,
)
from fairlead.common import texts
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import ACCESS
from fairlead.kube.api_requests import MERGE, METADATA, ApiRequests
from fairlead.kube.errors import ApiServerError, TooLarge
from fairlead.kube.resources import Resource

LARGEST = 256 * 1024
"""Bytes of a transient binding that is decided about, with its labels and annotations. Its schema
allows about 100,000 in its spec (15-access.yaml.j2)."""

UNMARKED = f"controller-uid,!{TRANSIENT}"
"""Selects the bindings that come of transient ones and are not found yet, and maybe others."""

_LONG_AGO = "1970-01-01T00:00:00Z"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_METADATA = (
    *("name", "namespace", "uid", "generation", "deletionTimestamp"),
    *("labels", "annotations", "ownerReferences"),
)


class NotGranted(FairleadError):
    """A binding that should be there cannot be made. `reason` is one word, for a condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Granting:
    """Changes bindings by requests to the API server; for several threads.

    With `recheck`, whoever asked for access has to have the right to bind the role still. `check`
    is called before each change that gives access, and raises FairleadError if another controller
    leads.
    """

    def __init__(self, api: ApiRequests, *, recheck: bool, check: Callable[[], None]) -> None:
        self._api = api
        self._recheck = recheck
        self._check = check

    def parent(self, key: Key) -> dict[str, Any] | None:
        """The transient binding as the API server has it at this moment, with what a decision needs
        of it; None if there is none. Raises TooLarge, ApiServerError.
        """
        value = self._get(kind_of(key).parents, key, most=LARGEST)
        return value and _part(value, kind_of(key).parent, ("spec", "approvedBy", "status"))

    def child(self, key: Key) -> dict[str, Any] | None:
        """RBAC's binding of this name, if it comes of a transient one. Raises ApiServerError."""
        try:
            value = self._get(kind_of(key).children, key, most=LARGEST)
        except TooLarge:
            return None  # somebody else's: an own one has about the size of its parent
        if value is None or owner_uid(value) is None:
            return None
        return _part(value, kind_of(key).child, ("roleRef", "subjects"))

    def has(self, key: Key, uid: str) -> bool:
        """Whether there is the transient binding of this uid, and stays. Raises ApiServerError."""
        value = self._metadata(kind_of(key).parents, key)
        return value is not None and value["metadata"].get("uid", uid) == uid and not goes(value)

    def make(self, key: Key, parent: Object, desired: Object) -> dict[str, Any] | None:
        """Create the binding, and return it; None if it was there already. Raises NotGranted, and
        FairleadError if the parent is going or the API server does not answer.
        """
        if not self.has(key, parent["metadata"]["uid"]):
            raise FairleadError("it is being deleted, which the watch has not told yet")
        self._require_role(key, parent)
        self._require_requester(key, parent)
        self._check()
        children = kind_of(key).children
        try:
            return self._api.call("POST", path(children, key[0]), desired, manager=ACCESS)
        except ApiServerError as error:
            self._require_own(key, parent, error)
            return None

    def put_right(self, key: Key, child: Object, desired: Object) -> None:
        """Make an own binding the wanted one again, without a moment in which it is not there
        unless its role has to change. Raises NotGranted, ApiServerError.
        """
        uid = child["metadata"]["uid"]
        if child["roleRef"] != desired["roleRef"]:
            self.take(key, uid)  # a role is immutable; the next look makes the binding anew
            return
        labels = child["metadata"].get("labels") or {}
        metadata = {
            "labels": {**dict.fromkeys(labels), **desired["metadata"]["labels"]},
            "annotations": desired["metadata"]["annotations"],
            "ownerReferences": desired["metadata"]["ownerReferences"],
        }
        self._change(key, uid, metadata, subjects=desired["subjects"])

    def mark(self) -> None:
        """Give the label by which bindings are found to own ones without it: an earlier version of
        Fairlead made them, or Metacontroller. Raises ApiServerError.
        """
        for kind in KINDS:
            for child in self._api.collection(
                kind.children.path, {"labelSelector": UNMARKED}, metadata_only=True
            ):
                metadata = child["metadata"]
                key = metadata.get("namespace") or "", metadata["name"]
                end = (metadata.get("annotations") or {}).get(UNTIL)
                if owner_uid(child):
                    end = end or ((self.parent(key) or {}).get("spec") or {}).get("validUntil")
                    self._mark(key, metadata["uid"], end or _LONG_AGO)

    def _mark(self, key: Key, uid: str, end: str) -> None:
        self._change(key, uid, {"labels": {TRANSIENT: "true"}, "annotations": {UNTIL: end}})

    def _change(self, key: Key, uid: str, metadata: Mapping[str, Any], **fields: Any) -> None:
        """Change the binding of this uid. Raises NotGranted, ApiServerError."""
        self._check()
        patch = {"metadata": {"uid": uid, **metadata}, **fields}
        at = path(kind_of(key).children, *key)
        try:
            self._api.send("PATCH", at, patch, manager=ACCESS, content_type=MERGE)
        except ApiServerError as error:
            if error.status not in (404, 409, 422):  # it is gone, or another one
                raise _explained(error) from error

    def take(self, key: Key, uid: str) -> bool:
        """Delete the binding of this uid; False if it was gone already. Raises ApiServerError."""
        try:
            preconditions = {"preconditions": {"uid": uid}}
            self._api.send(
                "DELETE", path(kind_of(key).children, *key), preconditions, manager=ACCESS
            )
        except ApiServerError as error:
            if error.status in (404, 409):  # 409: another one has its name by now
                return False
            raise
        return True

    def _require_role(self, key: Key, parent: Object) -> None:
        kind, name, namespace = _role(key, parent)
        resource = Resource(RBAC, "v1", kind, namespaced=bool(namespace))
        if self._metadata(resource, (namespace, name)) is None:
            scope = f" in namespace {namespace}" if namespace else ""
            raise NotGranted(
                "RoleNotFound", f"there is no {parent['spec']['roleRef']['kind']} {name}{scope}"
            )

    def _require_requester(self, key: Key, parent: Object) -> None:
        if not self._recheck:
            return
        spec = parent["spec"]
        user = spec.get("requestedBy")
        if not user:
            raise NotGranted(
                "RequesterUnknown",
                "nobody can tell whether the requester may still bind the role: create it with "
                "requestedBy",
            )
        kind, name, _ = _role(key, parent)
        attributes = {"group": RBAC, "resource": kind, "name": name, "verb": "bind"}
        review_spec = {
            "user": user,
            "groups": sorted({*(spec.get("requestedByGroups") or ()), *_groups(user)}),
            "resourceAttributes": {**attributes, **({"namespace": key[0]} if key[0] else {})},
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": review_spec,
        }
        answer = self._api.call("POST", _REVIEWS, review)
        if (answer.get("status") or {}).get("allowed") is not True:
            raise NotGranted("RequesterMayNotBind", _may_not_bind(spec))

    def _require_own(self, key: Key, parent: Object, error: ApiServerError) -> None:
        """Raises what the failure of a request to create means, unless the own binding was there
        already. One that lacks the label by which it is found gets it.
        """
        if error.status != 409:
            raise _explained(error) from error
        existing = self._metadata(kind_of(key).children, key)
        if existing is None:
            raise error  # it has just gone
        owner = owner_uid(existing)
        if owner is None:
            raise NotGranted(
                "NameTaken",
                f"there is another {kind_of(key).child} {key[1]}, which is left alone: create "
                "this again with another name",
            ) from error
        if owner != parent["metadata"]["uid"]:
            raise error  # of an earlier transient binding of this name, which goes
        if TRANSIENT not in (existing["metadata"].get("labels") or {}):
            self._mark(key, existing["metadata"]["uid"], parent["spec"]["validUntil"])

    def _metadata(self, resource: Resource, key: Key) -> dict[str, Any] | None:
        """What there is of this name; without metadata if these are too large. None for nothing."""
        try:
            return self._get(resource, key, accept=METADATA)
        except TooLarge:
            return {"metadata": {}}  # not an own one

    def _get(self, resource: Resource, key: Key, **options: Any) -> dict[str, Any] | None:
        return self._api.find(path(resource, *key), **options)


def _part(value: Object, kind: str, fields: Iterable[str]) -> dict[str, Any]:
    """What a decision, and a comparison, needs of an object."""
    return {
        "apiVersion": value["apiVersion"],
        "kind": kind,
        "metadata": _chosen(value["metadata"], _METADATA),
        **_chosen(value, fields),
    }


def _chosen(value: Object, fields: Iterable[str]) -> dict[str, Any]:
    return {field: value[field] for field in fields if value.get(field) is not None}


def _explained(error: ApiServerError) -> FairleadError:
    """What the refusal of a binding means."""
    if error.status == 403 and "being terminated" in error.message:
        return NotGranted("NamespaceGoes", error.message)
    if error.status == 403 and "RBAC permissions not currently held" in error.message:
        return NotGranted(
            "NotAllowed",
            "the role is not in access.roles of the settings, so the controller may not bind it: "
            "add it there, and run `fairlead deploy`",
        )
    if 400 <= error.status < 500 and error.status not in (409, 429):
        return NotGranted("Refused", error.message)
    return error


def _may_not_bind(spec: Object) -> str:
    """Who was asked about, and what would help: rights mostly come of groups."""
    user, role = bindings.shortened(spec["requestedBy"]), bindings.role(spec["roleRef"])
    groups = spec.get("requestedByGroups") or []
    if groups:
        names = texts.first([*map(bindings.shortened, groups)], 3)
        return (
            f"neither {user} (requestedBy) nor the groups {names} (requestedByGroups) may bind the "
            f"{role}: have somebody create it again who may"
        )
    return (
        f"{user} (requestedBy) may not bind the {role} by that name alone, and the groups of "
        f"{user} count only if spec.requestedByGroups names them: create it again with "
        "requestedByGroups (`kubectl auth whoami` shows yours), or have somebody create it who may "
        "bind the role"
    )


def _role(key: Key, parent: Object) -> tuple[str, str, str]:
    """The resource, the name and the namespace of the role."""
    reference = parent["spec"]["roleRef"]
    local = reference["kind"] == "Role"
    return ("roles" if local else "clusterroles", reference["name"], key[0] if local else "")


def _groups(user: str) -> list[str]:
    """The groups that API servers give to this user by its name."""
    groups = ["system:authenticated"]
    parts = user.split(":")
    if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]:
        groups += ["system:serviceaccounts", f"system:serviceaccounts:{parts[2]}"]
    return groups

"""What is checked before a binding is made, and how it is made, put right and taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.access.bindings import RBAC, Key, Object, goes, kind_of, owner_uid, path
from fairlead.access.state import needed_of_parent
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import ACCESS
from fairlead.kube.clients import MERGE, Objects
from fairlead.kube.errors import ApiServerError
from fairlead.kube.resources import Resource

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


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

    def __init__(self, api: Objects, *, recheck: bool, check: Callable[[], None]) -> None:
        self._api = api
        self._recheck = recheck
        self._check = check

    def live(self, key: Key) -> dict[str, Any] | None:
        """The parent as the API server has it at this moment; None if there is none."""
        value = self._get(kind_of(key).parents, key)
        return None if value is None else needed_of_parent(kind_of(key), value)

    def make(self, key: Key, parent: Object, desired: Object) -> dict[str, Any] | None:
        """Create the binding, and return it; None if it was there already. Raises NotGranted, and
        FairleadError if the parent is going or the API server does not answer.
        """
        live = self.live(key)
        if live is None or goes(live) or live["metadata"]["uid"] != parent["metadata"]["uid"]:
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
        if child["roleRef"] != desired["roleRef"]:
            self.take(key, child)  # a role is immutable; the next look makes the binding anew
            return
        self._check()
        labels = child["metadata"].get("labels") or {}
        patch = {
            "metadata": {
                "uid": child["metadata"]["uid"],
                "labels": {**dict.fromkeys(labels), **(desired["metadata"].get("labels") or {})},
                "annotations": desired["metadata"]["annotations"],
                "ownerReferences": desired["metadata"]["ownerReferences"],
            },
            "subjects": desired["subjects"],
        }
        try:
            self._api.call(
                "PATCH",
                path(kind_of(key).children, *key),
                patch,
                manager=ACCESS,
                content_type=MERGE,
            )
        except ApiServerError as error:
            if error.status not in (404, 409, 422):  # it is gone, or another one
                raise _explained(error) from error

    def take(self, key: Key, child: Object) -> bool:
        """Delete the binding, and no other one of its name; False if it was gone already. Raises
        ApiServerError.
        """
        try:
            preconditions = {"preconditions": {"uid": child["metadata"]["uid"]}}
            self._api.call("DELETE", path(kind_of(key).children, *key), preconditions)
        except ApiServerError as error:
            if error.status in (404, 409):  # 409: another one has its name by now
                return False
            raise
        return True

    def _require_role(self, key: Key, parent: Object) -> None:
        kind, name, namespace = _role(key, parent)
        resource = Resource(RBAC, "v1", kind, namespaced=bool(namespace))
        if self._get(resource, (namespace, name)) is None:
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
            raise NotGranted(
                "RequesterMayNotBind",
                f"{user}, who asked for this, may no longer bind the "
                f"{spec['roleRef']['kind']} {name}",
            )

    def _require_own(self, key: Key, parent: Object, error: ApiServerError) -> None:
        """Raises what the failure of a request to create means, unless the own binding was there
        already.
        """
        existing = self._get(kind_of(key).children, key) if error.status == 409 else None
        if existing is None:
            raise _explained(error) from error
        owner = owner_uid(existing)
        if owner is None:
            raise NotGranted(
                "NameTaken",
                f"there is another {kind_of(key).child} {key[1]}, which is left alone: create "
                "this again with another name",
            ) from error
        if owner != parent["metadata"]["uid"]:
            raise error  # of an earlier transient binding of this name, which goes

    def _get(self, resource: Resource, key: Key) -> dict[str, Any] | None:
        try:
            return self._api.call("GET", path(resource, *key))
        except ApiServerError as error:
            if error.status == 404:
                return None
            raise


def _explained(error: ApiServerError) -> FairleadError:
    """What the refusal of a binding means."""
    if error.status == 403 and "being terminated" in error.message:
        return NotGranted("NamespaceGoes", error.message)
    if error.status == 403:
        return NotGranted(
            "NotAllowed",
            f"the controller may not make the binding ({error.message}): access.roles of the "
            "settings lists the roles that it may bind",
        )
    if 400 <= error.status < 500 and error.status not in (409, 429):
        return NotGranted("Refused", error.message)
    return error


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

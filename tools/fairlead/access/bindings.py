"""The kinds of transient access, and what the controller makes of a decision: a binding that names
its owner and its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.access import instants
from fairlead.kube import api_paths
from fairlead.kube.resources import Resource

GROUP, VERSION = "access.fairlead.dev", "v1"
RBAC = "rbac.authorization.k8s.io"
UNTIL = f"{GROUP}/valid-until"
"""The annotation of a binding with its end, so that it is taken away even without a decision."""

Key = tuple[str, str]
"""The namespace (empty if cluster-scoped) and the name of a parent, and of its binding."""
Object = Mapping[str, Any]
Condition = Mapping[str, Any]

EFFECTIVE, FAILED = "effective", "failed"
"""The types of conditions."""


@dataclass(frozen=True)
class Kind:
    """A kind of transient binding (the parent), and the kind of RBAC's binding that it makes."""

    parent: str
    child: str
    namespaced: bool

    @property
    def parents(self) -> Resource:
        """The resource of the parents."""
        return Resource(GROUP, VERSION, f"{self.parent.lower()}s", self.namespaced)

    @property
    def children(self) -> Resource:
        """The resource of RBAC's bindings."""
        return Resource(RBAC, "v1", f"{self.child.lower()}s", self.namespaced)


LOCAL = Kind("TransientRoleBinding", "RoleBinding", namespaced=True)
EVERYWHERE = Kind("TransientClusterRoleBinding", "ClusterRoleBinding", namespaced=False)
KINDS = (LOCAL, EVERYWHERE)


def kind_of(key: Key) -> Kind:
    """The kind of the parent with this key."""
    return LOCAL if key[0] else EVERYWHERE


def path(resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
    """The path of an object, or of the list of its namespace without a `name`."""
    return api_paths.joined(resource.api_version, namespace, resource.name, name, subresource)


def owner_uid(child: Object) -> str | None:
    """The uid of the transient binding that this binding comes of; None if it comes of none."""
    for owner in child["metadata"].get("ownerReferences") or ():
        if owner["apiVersion"].startswith(f"{GROUP}/"):
            return str(owner["uid"])
    return None


def goes(parent: Object) -> bool:
    """Whether the parent is being deleted."""
    return "deletionTimestamp" in parent["metadata"]


def condition(parent: Object, type_: str) -> Condition:
    """The condition of this type as it was written last; empty if there is none."""
    for entry in (parent.get("status") or {}).get("conditions") or ():
        if entry.get("type") == type_:
            return dict(entry)
    return {}


def end(child: Object, parent: Object | None) -> int:
    """When the binding ends, in nanoseconds since the epoch: at the earlier of what is written into
    it and what its parent says. A binding of which neither tells has ended.
    """
    texts = [(child["metadata"].get("annotations") or {}).get(UNTIL)]
    texts += [parent["spec"].get("validUntil")] if parent else []
    ends = []
    for text in texts:
        try:
            ends.append(instants.nanoseconds(str(text)))
        except ValueError:
            continue
    return min(ends, default=0)


def made(decided: Object, parent: Object) -> dict[str, Any]:
    """The binding that was decided, with its owner and its end."""
    metadata = parent["metadata"]
    owner = {
        "apiVersion": parent["apiVersion"],
        "kind": parent["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {
        **decided,
        "metadata": {
            **decided["metadata"],
            "annotations": {UNTIL: parent["spec"]["validUntil"]},
            "ownerReferences": [owner],
        },
    }


def is_as_made(child: Object, desired: Object) -> bool:
    """Whether the binding has all that the wanted one has."""
    actual, expected = child["metadata"], desired["metadata"]
    return (
        child["roleRef"] == desired["roleRef"]
        and child.get("subjects") == desired["subjects"]
        and actual.get("ownerReferences") == expected["ownerReferences"]
        and all(
            (actual.get(field) or {}).get(key) == value
            for field in ("labels", "annotations")
            for key, value in (expected.get(field) or {}).items()
        )
    )

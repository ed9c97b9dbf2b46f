"""The kinds of transient access, and what the controller makes of a decision: a binding that names
its owner and its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.access import instants
from fairlead.common import texts
from fairlead.deployment.names import TRANSIENT_LABEL, UNTIL_ANNOTATION
from fairlead.kube import api_paths
from fairlead.kube.resources import Resource

GROUP, VERSION = "access.fairlead.dev", "v1"
RBAC = "rbac.authorization.k8s.io"
TRANSIENT, UNTIL = TRANSIENT_LABEL, UNTIL_ANNOTATION
SELECTOR = {"labelSelector": f"{TRANSIENT}=true"}
"""Selects the bindings that come of transient ones."""

Key = tuple[str, str]
"""The namespace (empty if cluster-scoped) and the name of a parent, and of its binding."""
Object = Mapping[str, Any]
Condition = Mapping[str, Any]

EFFECTIVE, FAILED = "effective", "failed"
"""The types of conditions."""
EXPIRED, TOO_MANY, TOO_LARGE = "Expired", "TooMany", "TooLarge"
"""Reasons of conditions."""
_SHOWN = 3
"""Subjects that a sentence names."""
_LONGEST = 100
"""Characters of a name in a sentence; users write names of hundreds."""


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


def instant(text: Any) -> int | None:
    """The time that is written there, in nanoseconds since the epoch; None if there is none."""
    try:
        return instants.nanoseconds(str(text))
    except ValueError:
        return None


def until(child: Object) -> int | None:
    """The end that is written into a binding."""
    return instant((child["metadata"].get("annotations") or {}).get(UNTIL))


def end(*ends: int | None) -> int:
    """When a binding ends, by what is written into it and by its parent: at the earlier one. One of
    which neither tells has ended.
    """
    return min((end for end in ends if end is not None), default=0)


def subjects(value: Object) -> str:
    """The first subjects of a binding, and how many more there are."""
    all_subjects = value.get("subjects") or []
    names = [f"{each['kind']} {shortened(each['name'])}" for each in all_subjects[:_SHOWN]]
    more = len(all_subjects) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def role(reference: Object) -> str:
    """The kind and the name of a role."""
    return f"{reference['kind']} {shortened(reference['name'])}"


def lost(child: Object) -> str:
    """Who has lost what with this binding."""
    return f"{subjects(child)} lost the {role(child['roleRef'])}"


def shortened(text: str) -> str:
    """The text in a sentence."""
    return texts.shortened(text, _LONGEST)


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
            "labels": {**(decided["metadata"].get("labels") or {}), TRANSIENT: "true"},
            "annotations": {UNTIL: parent["spec"]["validUntil"]},
            "ownerReferences": [owner],
        },
    }


def is_as_made(child: Object, desired: Object) -> bool:
    """Whether the binding has all that the wanted one has. Its end counts as an instant: it may be
    spelt in several ways.
    """
    actual, expected = child["metadata"], desired["metadata"]
    return (
        child["roleRef"] == desired["roleRef"]
        and child.get("subjects") == desired["subjects"]
        and actual.get("ownerReferences") == expected["ownerReferences"]
        and until(child) == until(desired)
        and (expected.get("labels") or {}).items() <= (actual.get("labels") or {}).items()
    )

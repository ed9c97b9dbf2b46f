"""Which objects of a cluster Fairlead made.

Three marks say so, and one of them is enough, since each gets lost: API servers drop
metadata.managedFields on demand, backups restore objects without it and with another uid, and other
tools remove labels. `fairlead deploy` brings all three back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fairlead.deployment.names import HISTORY, NAMESPACE, PART_OF, POLICIES
from fairlead.kube.stored_fields import FIELD_MANAGER

if TYPE_CHECKING:
    from fairlead.kube import clients

SELECTOR = f"{PART_OF}=fairlead"
"""Selects the objects with Fairlead's label."""
RECORD = "fairlead-objects"
"""The ConfigMap with the uids of what the last deployment applied."""
_KEY = "uids"
_MOST = 5_000
"""The number of uids that are kept, the newest: those of a deployment are about 50."""
_ENFORCING = ("WebhookConfiguration", "AdmissionPolicy", "AdmissionPolicyBinding")
"""How the kinds end by which API servers refuse requests."""


def labels(further: Mapping[str, str] | None = None) -> dict[str, str]:
    """The labels of an object that Fairlead makes: its mark, and `further` ones."""
    return {PART_OF: "fairlead", **(further or {})}


def is_ours(
    kind: str,
    manifest: Mapping[str, Any],
    *,
    uids: Collection[str] = (),
    manager: str = FIELD_MANAGER,
) -> bool:
    """Whether Fairlead made this object: by its field manager, its label or its uid. Some are known
    by name as well: webhooks and admission policies, because those that are forgotten refuse pods,
    and the history and the record of uids, which no record has.

    Whoever may write an object can mark it. So ask only about what tenants cannot write: what is in
    the namespace `fairlead`, and, of kinds without namespaces, what is_named_ours.
    """
    metadata = manifest["metadata"]
    return (
        is_labelled(manifest)
        or metadata.get("uid") in uids
        or _is_known_by_name(kind, manifest)
        or is_applied_by(manager, manifest)
    )


def _is_known_by_name(kind: str, manifest: Mapping[str, Any]) -> bool:
    if kind == "ConfigMap":
        name = manifest["metadata"]["name"]
        return name in (HISTORY, RECORD) or name.startswith(f"{POLICIES}-")
    return kind.endswith(_ENFORCING) and is_named_ours(manifest)


def is_labelled(manifest: Mapping[str, Any]) -> bool:
    """Whether the object has Fairlead's label."""
    return (manifest["metadata"].get("labels") or {}).get(PART_OF) == "fairlead"


def is_applied_by(manager: str, manifest: Mapping[str, Any]) -> bool:
    """Whether this field manager applied the object."""
    return applied_fields(manager, manifest) is not None


def applied_fields(manager: str, manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The fields that this field manager applied, as managedFields has them (`f:metadata`...); None
    if it did not apply the object.
    """
    return next(
        (
            entry.get("fieldsV1", {})
            for entry in manifest["metadata"].get("managedFields") or ()
            if (entry.get("manager"), entry.get("operation")) == (manager, "Apply")
        ),
        None,
    )


def is_named_ours(manifest: Mapping[str, Any]) -> bool:
    """Whether an object without a namespace has a name that Fairlead gives."""
    name = str(manifest["metadata"]["name"])
    return (
        name == "fairlead"
        or name.startswith(("fairlead-", "fairlead."))
        or name.endswith(".fairlead.dev")
    )


def record(objects: clients.Objects, uids: Iterable[str]) -> None:
    """Write down the uids of what a deployment applied, beside the earlier ones: their objects may
    still be there. Raises ApiServerError.
    """
    metadata = {"name": RECORD, "namespace": NAMESPACE, "labels": labels()}
    newest = list(dict.fromkeys([*recorded(objects), *uids]))[-_MOST:]
    data = {_KEY: "\n".join(newest)}
    objects.apply_whole(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    )


def recorded(objects: clients.Objects) -> tuple[str, ...]:
    """The uids that deployments wrote down; none if the record is gone. Raises ApiServerError."""
    config_map = objects.get("v1", "ConfigMap", RECORD, NAMESPACE) or {}
    return tuple((config_map.get("data") or {}).get(_KEY, "").split())

"""Which objects count as Fairlead's, and which do not although they look like it."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.deployment import ownership
from fairlead.deployment.names import PART_OF

MINE = {"manager": "fairlead", "operation": "Apply"}
OTHERS = [{"manager": "kubectl", "operation": "Apply"}, {"operation": "Update"}, {}]


def made(name: str = "opa", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": "u-1", "managedFields": OTHERS, **metadata}}


@pytest.mark.parametrize(
    ("manifest", "uids"),
    [
        (made(managedFields=[*OTHERS, MINE]), ()),
        (made(labels={PART_OF: "fairlead"}), ()),
        (made(), ("u-0", "u-1")),
    ],
    ids=["field manager", "label", "uid"],
)
def test_one_mark_is_enough(manifest: dict[str, Any], uids: tuple[str, ...]) -> None:
    assert ownership.is_ours("Deployment", manifest, uids=uids)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ValidatingWebhookConfiguration", "fairlead"),
        ("MutatingWebhookConfiguration", "placement-policies.fairlead.dev"),
        ("ValidatingAdmissionPolicyBinding", "fairlead-objects"),
        ("MutatingAdmissionPolicy", "fairlead.node-pool"),
        ("ConfigMap", "fairlead-history"),
        ("ConfigMap", "fairlead-policies-265ef9727ad8"),
    ],
)
def test_what_refuses_requests_and_the_history_are_known_by_name(kind: str, name: str) -> None:
    assert ownership.is_ours(kind, made(name))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ClusterRole", "fairlead-auditors"),
        ("ConfigMap", "fairlead-teams"),
        ("ValidatingWebhookConfiguration", "gatekeeper"),
        ("Deployment", "opa"),
    ],
)
def test_without_any_mark_it_is_somebody_elses(kind: str, name: str) -> None:
    manifest = made(name, labels={PART_OF: "shop"})
    assert not ownership.is_ours(kind, manifest, uids=("u-2",))
    assert not ownership.is_ours(kind, made(name, managedFields=None), uids=())

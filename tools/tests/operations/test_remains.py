"""What the status says of a cluster whose namespace `fairlead` somebody deleted."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.cli.operations import status as status_command
from fairlead.deployment.names import PART_OF
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import remains

WEBHOOK = {"name": "node-pool.fairlead.dev", "failurePolicy": "Fail"}
BY_KIND: dict[str, Any] = {
    "MutatingWebhookConfiguration": [{"name": "fairlead"}, {"name": "istio"}],
    "ValidatingWebhookConfiguration": [{"name": "placement", "labels": {PART_OF: "fairlead"}}],
    "ValidatingAdmissionPolicyBinding": [
        {"name": "fairlead-objects", "labels": {PART_OF: "fairlead"}},
        {"name": "ours", "labels": {PART_OF: "another"}},
    ],
    "TransientRoleBinding": [{"name": "ada", "namespace": "shop"}],
}
EFFECTIVE = {"conditions": [{"type": "effective", "status": "True"}]}


def cluster(
    *kinds: str, policy: str = "Fail", namespace: bool = False, status: int = 404
) -> clients.Objects:
    """A cluster with the objects of these kinds, and without the others."""

    def list_(_: str, kind: str, *__: object) -> list[dict[str, Any]]:
        if kind == "MutatingAdmissionPolicyBinding":
            raise Refused("cannot list them", status, None)
        return [
            {
                "metadata": each,
                "webhooks": [{**WEBHOOK, "failurePolicy": policy}],
                "status": EFFECTIVE,
            }
            for each in BY_KIND.get(kind, ())
            if kind in kinds
        ]

    def get(_: str, kind: str, *__: object) -> dict[str, Any] | None:
        there = namespace if kind == "Namespace" else "TransientRoleBinding" in kinds
        return {"metadata": {}} if there else None

    objects = cast(clients.Objects, SimpleNamespace(list=list_, get=get))
    objects.visible = partial(clients.Objects.visible, objects)  # type: ignore[method-assign]
    return objects


WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def sentences(*kinds: str, **options: Any) -> list[str]:
    return list(remains.of_cluster(cluster(*kinds, **options)).sentences())


def test_where_nothing_is_left_nothing_is_said() -> None:
    assert sentences() == []


def test_webhooks_without_a_namespace_are_told_with_their_effect() -> None:
    (sentence,) = sentences(*WEBHOOKS)
    assert sentence == (
        "webhooks ask OPA in the namespace fairlead, but the namespace is gone, so API servers "
        "refuse the requests that they are about, such as new pods of mapped namespaces "
        "(MutatingWebhookConfiguration fairlead, ValidatingWebhookConfiguration placement)"
    )
    (sentence,) = sentences(*WEBHOOKS, policy="Ignore", namespace=True)
    assert "but nothing runs there, so API servers go on without an answer" in sentence


def test_guards_and_access_without_a_namespace_are_told() -> None:
    assert sentences("ValidatingAdmissionPolicyBinding", "TransientRoleBinding") == [
        "admission policies are still in force (ValidatingAdmissionPolicyBinding fairlead-objects)",
        "1 transient binding is in force without the controller: nothing ends them",
    ]


def test_what_nobody_may_list_is_left_out_and_another_error_is_one() -> None:
    assert sentences(status=403) == []
    with pytest.raises(Refused):
        sentences(status=500)


def test_people_read_both_ways_out() -> None:
    data = {"name": "main", "remains": ["webhooks are left"]}
    assert status_command.undeployed(data) == (
        "not deployed: cluster main runs without Fairlead, but not all of it is gone: webhooks are "
        "left. Run `fairlead deploy` to have all of it again, or `fairlead uninstall` to remove "
        "the rest"
    )
    assert status_command.undeployed({**data, "remains": []}).endswith(": run `fairlead deploy`")

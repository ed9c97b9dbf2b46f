"""Which webhooks do not ask about what a controller makes: those of intents that also decide about
its owner."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.policy import controllers
from fairlead.policy.requests import Request

EVERYWHERE: dict[str, Any] = {"operations": ["CREATE", "UPDATE"]}
SHOP = {"namespaces": {"matchLabels": {"team": "shop"}}}


def request(*kinds: str, **facts: Any) -> Request:
    return Request.model_validate({"kinds": [*kinds], **EVERYWHERE, **facts})


def names(asked: Request, *others: Request) -> list[str]:
    return [each.name for each in controllers.conditions(asked, [asked, *others])]


def test_what_a_controller_makes_is_left_to_its_owner() -> None:
    both = request("apps/v1/Deployment", "apps/v1/ReplicaSet", "batch/v1/Job", "batch/v1/CronJob")
    of_replica_sets, of_jobs = controllers.conditions(both, [both])
    assert of_replica_sets.name == "no-replicaset-of-a-deployment"
    for text in ("deployment-controller", "system:kube-controller-manager", "'apps/v1'"):
        assert text in of_replica_sets.expression
    assert of_jobs.name == "no-job-of-a-cronjob"
    for text in ("cronjob-controller", "system:kube-controller-manager", "'batch/v1'"):
        assert text in of_jobs.expression


def test_another_request_of_the_intent_may_be_about_the_owner() -> None:
    replica_sets = request("apps/v1/ReplicaSet")
    deployments = request("apps/v1/Deployment", name="deployments")
    assert names(replica_sets, deployments) == ["no-replicaset-of-a-deployment"]
    assert names(deployments, replica_sets) == []


@pytest.mark.parametrize(
    "owner",
    [
        request("apps/v1/StatefulSet"),
        request("apps/v1/Deployment/scale"),
        request("apps/v1/Deployment", **SHOP),
        request("apps/v1/Deployment", operations=["DELETE"]),
    ],
)
def test_everything_is_asked_about_if_nothing_is_said_of_the_owner(owner: Request) -> None:
    assert names(request("apps/v1/ReplicaSet"), owner) == []


def test_only_the_operations_that_the_owner_has_are_left_out() -> None:
    replica_sets = request("apps/v1/ReplicaSet", operations=["CREATE", "UPDATE", "DELETE"])
    created = request("apps/v1/Deployment", operations=["CREATE", "DELETE"])
    (condition,) = controllers.conditions(replica_sets, [replica_sets, created])
    assert condition.operations == ["CREATE"]


def test_a_subresource_of_a_request_is_that_of_each_kind() -> None:
    of_status = request("v1/Pod", "apps/v1/Deployment", subresource="status")
    assert [kind.path for kind in of_status.kinds] == ["/Pod/status", "apps/Deployment/status"]

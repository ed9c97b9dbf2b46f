"""A push names each policy that was in force in the cluster and is no more."""

from __future__ import annotations

from fairlead.operations import push
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


def test_a_policy_that_a_push_leaves_out_is_named() -> None:
    pushed = PolicySet.load(Settings())
    more = PolicySet.load(Settings.model_validate({"intents": {"run-as-user": True}}))
    former = PolicySet.deployed(more.modules, more.settings)
    (warning,) = push.dropped(former, pushed)
    assert warning.startswith("run-as-user was in force and is no more: ")
    assert "fairlead rollback" in warning
    assert push.dropped(former, more) == []
    assert push.dropped(pushed, more) == []

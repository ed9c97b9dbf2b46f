"""What the status says of intents, by the ConfigMap of the deployed policies: what checks the final
state of each one, and what the settings want.
"""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.deployment import manifests
from fairlead.deployment.final_states import FinalState
from fairlead.deployment.names import FINAL_STATE_LABEL, SETTINGS_ANNOTATION
from fairlead.operations import status
from fairlead.policy import bundles
from fairlead.settings.models import Settings

BY_POLICY = Settings.model_validate({"finalState": "policy"})
POLICY = FinalState(
    manifests.to_yaml([{"metadata": {"name": "p", "labels": {FINAL_STATE_LABEL: "node-pool"}}}])
)


def deployed(settings: Settings, recorded: FinalState | None = None) -> dict[str, Any]:
    """The ConfigMap of the policies."""
    return manifests.policies(settings, bundles.bundle(settings), final_state=recorded)


@pytest.mark.parametrize(
    ("settings", "recorded", "wanted", "checks"),
    [
        (Settings(), None, "webhook", "webhook"),
        (BY_POLICY, None, "policy", "webhook"),
        (BY_POLICY, POLICY, "policy", "webhook"),
        (BY_POLICY, POLICY.put(in_place=True), "policy", "policy"),
    ],
    ids=["by default", "no policy can", "not in place yet", "in place"],
)
def test_the_status_says_what_is_to_check_the_final_state_and_what_does(
    settings: Settings, recorded: FinalState | None, wanted: str, checks: str
) -> None:
    config_map = deployed(settings, recorded)
    assert status.final_state(config_map) == wanted
    (node_pool,) = status.intents(config_map)
    assert node_pool["finalState"] == checks


def test_without_readable_settings_nothing_is_said() -> None:
    damaged = deployed(BY_POLICY)
    damaged["metadata"]["annotations"][SETTINGS_ANNOTATION] = '{"finalState": "nobody"}'
    for config_map in (None, damaged):
        assert status.final_state(config_map) is None
        assert status.intents(config_map) == []

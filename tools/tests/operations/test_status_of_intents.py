"""What the status says of intents, by the ConfigMap of the deployed policies."""

from __future__ import annotations

from fairlead.deployment import manifests
from fairlead.deployment.names import SETTINGS_ANNOTATION
from fairlead.operations import status
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


def test_without_readable_settings_nothing_is_said() -> None:
    damaged = manifests.config_map(PolicySet.load(Settings()))
    assert [row["name"] for row in status.intents(damaged)] == ["node-pool"]
    damaged["metadata"]["annotations"][SETTINGS_ANNOTATION] = '{"replicas": "none"}'
    for config_map in (None, damaged):
        assert status.intents(config_map) == []

"""What the checks before a deployment say of the settings alone."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.operations import preflight
from fairlead.settings.models import Settings


def test_a_namespace_that_can_lose_its_pool_is_told() -> None:
    (finding,) = preflight._pool_labels(Settings.model_validate({"poolAdmins": []}))
    assert finding.ok
    assert "create it anew without the label agentpool" in finding.detail
    assert "set defaultPool" in finding.detail


@pytest.mark.parametrize("settings", [{}, {"poolAdmins": ["ops"], "defaultPool": "small"}])
def test_nothing_is_told_if_anyone_may_label_or_every_namespace_has_a_pool(
    settings: dict[str, Any],
) -> None:
    assert preflight._pool_labels(Settings.model_validate(settings)) == []

"""Attacks on a real cluster: OPA and its sidecar stay within their memory and go on serving
others."""

from __future__ import annotations

import pytest

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.settings.models import Settings
from lab.fuzz import load

pytestmark = [pytest.mark.lab, pytest.mark.embedded("it measures processes of this machine")]


def test_neither_a_tenant_nor_an_anonymous_caller_takes_more_than_there_is(
    cluster: EmbeddedCluster, settings: Settings
) -> None:
    """Times are not checked here, because the machine is shared; `make fuzz` checks them."""
    result = load.on_cluster(
        cluster, settings, examples=6, seed=1, progress=Progress(), strict=False
    )
    assert result["why"] is None, result
    assert result["memory"].keys() == {"opa", "sync"}
    for name, limit in result["limits"].items():
        assert 0 < result["memory"][name] < limit["bytes"]
    for bystander in result["bystanders"]:
        assert bystander["asked"] > 0
        assert bystander["refused"] == 0

"""The table of the kinds that are known without a cluster is what the pinned API server serves."""

from __future__ import annotations

import pytest

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.kube import served_kinds
from lab import kinds_of_server

PROFILES = ["bare"]
pytestmark = pytest.mark.embedded("it asks the pinned API server")


def test_the_table_is_what_the_api_server_serves(cluster: BareCluster) -> None:
    served = kinds_of_server.text(cluster.objects())
    assert served_kinds.file().read_text() == served, "run `make generate ARGS=--kinds`"

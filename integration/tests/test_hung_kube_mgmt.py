"""A hung kube-mgmt is detected by what OPA lacks, because its own endpoint reports success."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import suspension
from command_line import fairlead

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import waiting
from fairlead.kube import clients

pytestmark = pytest.mark.embedded("it stops a process of this machine")

PROFILES = ["kube-mgmt"]  # without its program these tests are skipped
AGAIN = 60
"""Seconds until the changes that kube-mgmt missed reach OPA."""


def problems(cluster: EmbeddedCluster) -> tuple[int, list[str]]:
    """The exit code of `fairlead status`, and its problems."""
    asked = fairlead("status", "--name", cluster.name, "-o", "json")
    return asked.returncode, json.loads(asked.stdout)["problems"]


@pytest.mark.parametrize("missed", ["created", "relabelled", "deleted"])
def test_what_a_hung_kube_mgmt_missed_is_told(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    namespace: Callable[..., str],
    new_namespace: Callable[..., str],
    missed: str,
) -> None:
    name = namespace(agentpool="pool1")
    waiting.until(lambda: problems(cluster) == (0, []), deadline=AGAIN, what="all is well")
    began = datetime.now(UTC).replace(microsecond=0)
    pid: Any = cluster.servers()["kube-mgmt"]["pid"]
    with suspension.suspended(pid):
        assert problems(cluster) == (0, []), "it has missed nothing yet"
        change(objects, name, missed)
        if missed == "created":
            name = new_namespace(agentpool="pool2")
        code, reported = problems(cluster)
        assert (code, len(reported)) == (1, 1)
        assert f"the last change of 1 namespace ({name}), because its sidecar hangs" in reported[0]
        if missed == "deleted":
            assert reported[0].startswith("the data of opa are stale: ")
        else:
            since = reported[0].removeprefix("the data of opa have been stale since ").split(",")[0]
            assert began <= datetime.fromisoformat(since) <= datetime.now(UTC)
    waiting.until(lambda: problems(cluster) == (0, []), deadline=AGAIN, what="all is well again")


def change(objects: clients.Objects, name: str, missed: str) -> None:
    if missed == "relabelled":
        metadata = {"name": name, "labels": {"agentpool": "pool2"}}
        objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    elif missed == "deleted":
        objects.delete("v1", "Namespace", name)
        waiting.until(
            lambda: objects.get("v1", "Namespace", name) is None, deadline=AGAIN, what="it is gone"
        )

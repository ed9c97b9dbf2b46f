"""`fairlead status` names what OPA does not have although the cluster has it, what OPA has although
the cluster does not, and what is left where somebody deleted the namespace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
from applied import applied
from click.testing import CliRunner
from profiles import SETTINGS
from waits import until

from fairlead.cli.operations.status import command
from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.deployment.names import DATA_LABEL, NAMESPACE, POLICY_LABEL
from fairlead.kube import clients
from fairlead.operations import push, status, up
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

LIBRARY = "package extra.zlib\n\nbad(x) if x == 1\n"
USER = "package extra.user\n\nimport data.extra.zlib\n\ndeny contains `no` if zlib.bad(1)\n"


def config_map(name: str, label: tuple[str, str], data: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": dict([label])}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def problems(cluster: Cluster, word: str) -> list[str]:
    return [problem for problem in status.status(cluster)["problems"] if word in problem]


def test_data_that_opa_rejects_are_a_problem_with_the_reason(
    cluster: Cluster, objects: clients.Objects
) -> None:
    with applied(objects, [config_map("teams", DATA_LABEL, {"teams.yaml": "a: 1"})]):
        (sentence,) = until(
            lambda: (
                [each for each in problems(cluster, "data of teams") if "error" in each] or None
            ),
            what="the status of the data is an error",
        )
        assert sentence.startswith("data of teams are not loaded (error: "), sentence
        if cluster.sidecar.name == "sync":
            assert "fairlead/teams/teams.yaml:1: invalid_json: " in sentence
            assert "data has to be JSON, whatever the key ends with" in sentence
        text = CliRunner().invoke(command, ["--name", cluster.name], catch_exceptions=False).output
        assert "data of teams are not loaded" in " ".join(text.split())


def test_a_library_that_was_deleted_while_others_use_it_is_a_problem(
    cluster: Cluster, objects: clients.Objects, settings: Settings
) -> None:
    library = config_map("z-lib", POLICY_LABEL, {"zlib.rego": LIBRARY})
    with applied(objects, [library, config_map("a-user", POLICY_LABEL, {"a.rego": USER})]):
        until(lambda: "ok" in state_of(cluster, "a-user"), what="OPA has both")
        assert problems(cluster, "z-lib") == []
        objects.delete("v1", "ConfigMap", "z-lib", NAMESPACE)
        (sentence,) = until(
            lambda: problems(cluster, "z-lib/zlib.rego was deleted") or None,
            what="the status names it",
        )
        assert "because fairlead/a-user/a.rego uses it" in sentence
        assert {(each["module"], *each["usedBy"]) for each in orphans(cluster)} == {
            ("fairlead/z-lib/zlib.rego", "fairlead/a-user/a.rego")
        }
    if cluster.sidecar.name == "kube-mgmt":  # it asks OPA once to unload a module
        until(
            lambda: any("--restart" in each for each in problems(cluster, "z-lib/zlib.rego was")),
            what="the status has a way out",
        )
        push.push(cluster, PolicySet.load(settings), restart=True, progress=Progress())
    until(lambda: not orphans(cluster), what="OPA unloads both")


def orphans(cluster: Cluster) -> list[dict[str, Any]]:
    """What is left of z-lib, for each OPA. kube-mgmt may leave files of other tests there."""
    return [
        each
        for each in status.status(cluster)["orphans"]
        if each["module"].startswith("fairlead/z-lib/")
    ]


def state_of(cluster: Cluster, name: str) -> list[str]:
    return [row["status"] for row in status.status(cluster)["policies"] if row["name"] == name]


@pytest.mark.embedded("it has a cluster of its own, which it damages")
def test_what_is_left_without_its_namespace_is_told_with_both_ways_out() -> None:
    name = f"remains-{os.getpid()}"
    with up.started(name, SETTINGS, {}, progress=Progress()) as cluster:
        objects = cluster.objects()
        objects.delete("v1", "Namespace", NAMESPACE)
        until(lambda: objects.get("v1", "Namespace", NAMESPACE) is None, what="it is gone")
        done = CliRunner().invoke(command, ["--name", name])
        text = " ".join((done.output or str(done.exception)).split())
        assert done.exit_code != 0
        for words in (
            "webhooks ask OPA in the namespace fairlead, but the namespace is gone",
            "refuse the requests that they are about, such as new pods of mapped namespaces",
            "MutatingWebhookConfiguration fairlead",
            "admission policies are still in force",
            "`fairlead deploy`",
            "`fairlead uninstall`",
        ):
            assert words in f"{text} {done.exception}", words
        remains = status.status(cluster)["remains"]
        assert len(remains) == 2

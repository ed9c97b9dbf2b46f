"""A cluster whose OPAs follow signed bundles: commands that would have no effect say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from fairlead.cli.operations.policies import command
from fairlead.clusters.base import Cluster
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.names import BUNDLES_ANNOTATION, NAMESPACE, OPA, POLICIES
from fairlead.kube import clients
from fairlead.operations import deploy, push, rollback, status
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

URL = "https://policies.example.com"
SILENT = Progress()


@pytest.fixture
def following(cluster: Cluster, objects: clients.Objects) -> Iterator[Cluster]:
    """The cluster with the annotation that `fairlead bundle config --kustomize` gives OPA's
    Deployment.
    """
    deployment = objects.get("apps/v1", "Deployment", OPA, NAMESPACE)
    assert deployment

    def annotate(url: str | None) -> None:
        objects.merge(deployment, {"metadata": {"annotations": {BUNDLES_ANNOTATION: url}}})

    annotate(URL)
    try:
        yield cluster
    finally:
        annotate(None)


COMMANDS: dict[str, tuple[Callable[[Cluster, Settings], Any], str]] = {
    "push": (
        lambda cluster, settings: push.push(cluster, PolicySet.load(settings), progress=SILENT),
        "fairlead bundle sign",
    ),
    "rollback": (
        lambda cluster, _: rollback.rollback(cluster, None, progress=SILENT),
        "fairlead bundle sign",
    ),
    "deploy": (
        lambda cluster, settings: deploy.deploy(cluster, PolicySet.load(settings), progress=SILENT),
        "kubectl apply -k",
    ),
    "deploy --diff": (
        lambda cluster, settings: deploy.plan(cluster, PolicySet.load(settings), progress=SILENT),
        "kubectl apply -k",
    ),
    "deploy --check": (
        lambda cluster, settings: deploy.check(cluster, PolicySet.load(settings), progress=SILENT),
        "kubectl apply -k",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_would_have_no_effect_is_refused(
    name: str, following: Cluster, objects: clients.Objects, settings: Settings
) -> None:
    run, way_out = COMMANDS[name]
    before = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    with pytest.raises(UsageError, match=f"from the signed bundles of {URL}: .*{way_out}"):
        run(following, settings)
    assert objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) == before


def test_status_and_policies_say_where_the_policies_come_from(following: Cluster) -> None:
    shown = status.status(following)
    assert shown["bundles"] == URL
    assert f"the ConfigMap {POLICIES} is there, but" in " ".join(shown["problems"])
    arguments = ["--cluster", following.kind, "--name", following.name]
    result = CliRunner().invoke(command, arguments)
    assert f"not listed: the policies in the signed bundles of {URL}" in result.stderr


def test_other_clusters_follow_none(cluster: Cluster) -> None:
    assert status.status(cluster)["bundles"] is None

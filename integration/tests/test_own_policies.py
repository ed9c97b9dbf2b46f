"""A user's own policies, as docs/policies.md writes them, come into force on a real API server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths, waiting
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import deploy
from fairlead.policy import kinds
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it deploys other policies")

PAGE = (paths.root() / "docs" / "policies.md").read_text()
ADMISSION = "admissionregistration.k8s.io/v1"


def written(repository: Path) -> None:
    """Write the files of the page: each block follows a paragraph that ends with its path."""
    for path, text in re.findall(r"`(policies/\S+)`:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL):
        file = repository / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that the page makes, by its commands."""
    root = tmp_path_factory.mktemp("own")
    lines = [
        line.removeprefix("fairlead ").split()
        for line in re.findall(r"^fairlead (?:init|new) .*$", PAGE, re.MULTILINE)
    ]
    assert [line[0] for line in lines] == ["init", "new"]
    assert fairlead(root, *lines[0]).returncode == 0
    repository = root / "my-policies"
    assert fairlead(repository, *lines[1]).returncode == 0
    written(repository)
    return repository


def fairlead(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "FAIRLEAD_SETTINGS"}
    return subprocess.run(
        [sys.executable, "-m", "fairlead", *arguments],
        cwd=folder,
        env={**environment, "FAIRLEAD_HOME": str(paths.root())},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def cluster_again(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """The cluster, which has its own policies again afterwards."""
    yield cluster
    deploy.deploy(cluster, Settings(), progress=Progress())


def test_the_policies_of_the_page_pass_their_checks(repository: Path) -> None:
    done = fairlead(repository, "test", "--policies", "policies", "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [step["detail"] for step in json.loads(done.stdout)] == ["4 tests passed", "", "4 cases"]


def refusal(objects: clients.Objects, manifest: dict[str, Any]) -> str | None:
    """Why the API server refuses the object; None if it admits it."""
    try:
        objects.create(manifest)
    except Refused as error:
        return str(error)
    objects.delete(
        manifest["apiVersion"],
        manifest["kind"],
        manifest["metadata"]["name"],
        manifest["metadata"]["namespace"],
    )
    return None


def test_the_policies_of_the_page_are_in_force(
    repository: Path, cluster_again: EmbeddedCluster
) -> None:
    cluster, objects = cluster_again, cluster_again.objects()
    pushed = fairlead(repository, "push", "--name", cluster.name)
    assert pushed.returncode == 0, pushed.stderr
    assert "do not ask" not in pushed.stderr
    (crd,) = (repository / "policies" / "database_backups" / "crds").iterdir()
    objects.apply(yaml.safe_load(crd.read_text()))
    for name, labels in (
        ("own-shop", {"team": "web"}),
        ("own-dns", {"team": "infra"}),
        ("own-orders", {"stage": "production"}),
        ("own-mapped", {"agentpool": "pool1", "stage": "production"}),
    ):
        objects.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        )

    def pod(namespace: str, *, host: bool) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"hostNetwork": host, "containers": [{"name": "c", "image": "nginx"}]},
        }

    def database(namespace: str, backup: str) -> dict[str, Any]:
        return {
            "apiVersion": "example.com/v1",
            "kind": "Database",
            "metadata": {"name": "orders", "namespace": namespace},
            "spec": {"backup": backup},
        }

    host = "remove spec.hostNetwork"
    waiting.until(
        lambda: host in str(refusal(objects, pod("own-shop", host=True))),
        deadline=30,
        what="the policy is in force",
    )
    assert host in str(refusal(objects, pod("own-mapped", host=True)))
    assert refusal(objects, pod("own-dns", host=True)) is None
    assert refusal(objects, pod("own-shop", host=False)) is None
    backups = "set spec.backup to daily or hourly"
    waiting.until(
        lambda: backups in str(refusal(objects, database("own-orders", "none"))),
        deadline=30,
        what="the policy on databases is in force",
    )
    assert refusal(objects, database("own-orders", "daily")) is None
    assert refusal(objects, database("own-shop", "none")) is None

    status = fairlead(repository, "status", "--name", cluster.name, "-o", "json")
    assert json.loads(status.stdout)["problems"] == []

    settings = repository / "fairlead.yaml"
    text = settings.read_text()
    settings.write_text(re.sub("enforcement: .*", "enforcement: {no-host-network: warn}", text))
    deployed = fairlead(repository, "deploy", "--name", cluster.name)
    assert deployed.returncode == 0, deployed.stderr
    waiting.until(
        lambda: refusal(objects, pod("own-shop", host=True)) is None,
        deadline=30,
        what="the policy only warns",
    )
    settings.write_text(text)


def test_an_intent_that_is_gone_leaves_nothing(
    repository: Path, cluster_again: EmbeddedCluster
) -> None:
    objects = cluster_again.objects()
    assert fairlead(repository, "push", "--name", cluster_again.name).returncode == 0
    policy = (ADMISSION, "ValidatingAdmissionPolicy", "fairlead-no-host-network-size")
    assert objects.get(*policy)
    deploy.deploy(cluster_again, Settings(), progress=Progress())
    assert objects.get(*policy) is None
    webhooks = objects.get(ADMISSION, "ValidatingWebhookConfiguration", "fairlead")
    assert webhooks
    assert {w["name"] for w in webhooks["webhooks"]} == {
        "final-state.node-pool.fairlead.dev",
        "workloads.node-pool.fairlead.dev",
    }


def test_the_schemas_are_those_of_the_api_server(cluster: EmbeddedCluster) -> None:
    kubectl = toolchain.ensure(["kubectl"])["kubectl"]
    document = subprocess.run(
        [kubectl, "get", "--raw", "/openapi/v2", "--kubeconfig", cluster.kubeconfig],
        capture_output=True,
        check=True,
    )
    served = kinds.of_openapi(json.loads(document.stdout))
    folder = paths.root() / "tools" / "schemas"
    kept = {
        path.relative_to(folder): json.loads(path.read_text())
        for path in (folder / "kubernetes").rglob("*.json")
    }
    groups = {path.parts[1] for path in kept}  # other tests add kinds of other groups
    assert {Path(p): schema for p, schema in served.items() if p.parts[1] in groups} == kept

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

import openapi_kinds
import pytest
import yaml
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE, POLICIES
from fairlead.kube import clients, own_kinds
from fairlead.kube.errors import Refused
from fairlead.operations import deploy, disable
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

PROFILES = ["processes"]

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
        for line in re.findall(r"^fairlead (?:init|new policy) .*$", PAGE, re.MULTILINE)
    ]
    assert [line[0] for line in lines] == ["init", "new"]
    assert fairlead(root, *lines[0]).returncode == 0
    repository = root / "my-policies"
    assert fairlead(repository, *lines[1]).returncode == 0
    written(repository)
    assert "\nfairlead generate\n" in PAGE
    assert fairlead(repository, "generate").returncode == 0
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
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())


def test_the_policies_of_the_page_pass_their_checks(repository: Path) -> None:
    done = fairlead(repository, "test", "--policies", "policies", "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [step["detail"] for step in json.loads(done.stdout)] == [
        *("4 tests passed", "", "4 cases", "")
    ]


def pod(namespace: str, *, host: bool) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"hostNetwork": host, "containers": [{"name": "c", "image": "nginx"}]},
    }


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

    def database(namespace: str, backup: str) -> dict[str, Any]:
        return {
            "apiVersion": "example.com/v1",
            "kind": "Database",
            "metadata": {"name": "orders", "namespace": namespace},
            "spec": {"backup": backup},
        }

    host = "remove spec.hostNetwork"
    until(
        lambda: host in str(refusal(objects, pod("own-shop", host=True))),
        what="the policy is in force",
    )
    assert host in str(refusal(objects, pod("own-mapped", host=True)))
    assert refusal(objects, pod("own-dns", host=True)) is None
    assert refusal(objects, pod("own-shop", host=False)) is None
    backups = "set spec.backup to daily or hourly"
    until(
        lambda: backups in str(refusal(objects, database("own-orders", "none"))),
        what="the policy on databases is in force",
    )
    assert refusal(objects, database("own-orders", "daily")) is None
    assert refusal(objects, database("own-shop", "none")) is None

    status = fairlead(repository, "status", "--name", cluster.name, "-o", "json")
    assert json.loads(status.stdout)["problems"] == []

    objects.apply(database("own-shop", "none"))  # before its namespace is in production
    label = {"name": "own-shop", "labels": {"team": "web", "stage": "production"}}
    objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": label})
    audited = fairlead(repository, "audit", "--name", cluster.name, "-o", "json")
    assert audited.returncode == 1, audited.stderr
    (finding,) = (f for f in json.loads(audited.stdout)["findings"] if f["kind"] == "Database")
    assert (finding["finding"], finding["namespace"]) == ("would be refused", "own-shop")
    assert backups in finding["message"]
    settings = repository / "fairlead.yaml"
    text = settings.read_text()
    lenient = text.replace("node-pool: true", "database-backups: false")
    (repository / "lenient.yaml").write_text(lenient)
    compared = fairlead(
        *(repository, "diff", "--settings", "lenient.yaml", "--name", cluster.name, "-o", "json")
    )
    differences = json.loads(compared.stdout)["differences"]
    assert [
        difference["difference"] for difference in differences if difference["kind"] == "Database"
    ] == ["would be admitted"]

    settings.write_text(re.sub("enforcement: .*", "enforcement: {no-host-network: warn}", text))
    deployed = fairlead(repository, "deploy", "--name", cluster.name)
    assert deployed.returncode == 0, deployed.stderr
    until(
        lambda: refusal(objects, pod("own-shop", host=True)) is None, what="the policy only warns"
    )
    settings.write_text(text)


def test_an_intent_is_disabled_where_another_asks_about_the_same_pod(
    repository: Path, cluster_again: EmbeddedCluster
) -> None:
    cluster, objects = cluster_again, cluster_again.objects()
    assert fairlead(repository, "push", "--name", cluster.name).returncode == 0
    metadata = {"name": "own-both", "labels": {"agentpool": "pool1"}}
    objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    host = "remove spec.hostNetwork"
    try:
        until(
            lambda: host in str(refusal(objects, pod("own-both", host=True))),
            what="the policy is in force",
        )
        disable.disable(cluster, "node-pool", "a test")
        until(
            lambda: "nodeSelector" not in _created(objects, pod("own-both", host=False))["spec"],
            what="pods are no longer placed",
        )
        assert host in str(refusal(objects, pod("own-both", host=True)))
        disable.enable(cluster, None)
        disable.disable(cluster, "no-host-network", "a test")
        until(
            lambda: refusal(objects, pod("own-both", host=True)) is None,
            what="the network of the node is allowed",
        )
        created = until(
            lambda: _created(objects, pod("own-both", host=True))["spec"].get("nodeSelector"),
            what="pods are placed again",
        )
        assert created == {"agentpool": "pool1"}
    finally:
        disable.enable(cluster, None)


def _created(objects: clients.Objects, manifest: dict[str, Any]) -> dict[str, Any]:
    """The object as the API server would store it."""
    return objects.apply(manifest, dry_run=True)


@pytest.mark.parametrize(
    ("file", "old", "new", "code", "message"),
    [
        (
            "intent.yaml",
            "    namespaces:",
            '    conditions: [{name: a, expression: "this is not CEL ("}]\n    namespaces:',
            2,
            "does not accept what the policies' intent.yaml say",
        ),
        (
            "no_host_network.rego",
            "\tinput.request.object.spec.hostNetwork",
            "\tfalse",
            1,
            "policy tests fail",
        ),
    ],
)
def test_policies_that_cannot_work_change_nothing(
    repository: Path,
    cluster_again: EmbeddedCluster,
    file: str,
    old: str,
    new: str,
    code: int,
    message: str,
) -> None:
    path = repository / "policies" / "no_host_network" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    objects = cluster_again.objects()
    before = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    try:
        for action in ("push", "deploy"):
            done = fairlead(repository, action, "--name", cluster_again.name)
            assert done.returncode == code, done.stderr
            assert message in done.stderr
            after = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
            assert before
            assert after
            assert before["data"] == after["data"]
    finally:
        path.write_text(text)


def test_an_intent_that_is_gone_leaves_nothing(
    repository: Path, cluster_again: EmbeddedCluster
) -> None:
    objects = cluster_again.objects()
    assert fairlead(repository, "push", "--name", cluster_again.name).returncode == 0
    deploy.deploy(cluster_again, PolicySet.load(Settings()), progress=Progress())
    webhooks = objects.get(ADMISSION, "ValidatingWebhookConfiguration", "fairlead")
    assert webhooks
    assert {w["name"] for w in webhooks["webhooks"]} == {
        "final-state.node-pool.fairlead.dev",
        "final-state.updates.node-pool.fairlead.dev",
        "workloads.node-pool.fairlead.dev",
    }


def test_the_schemas_are_those_of_the_api_server(cluster: EmbeddedCluster) -> None:
    kubectl = toolchain.ensure(["kubectl"])["kubectl"]
    document = subprocess.run(
        [kubectl, "get", "--raw", "/openapi/v2", "--kubeconfig", cluster.kubeconfig],
        capture_output=True,
        check=True,
    )
    served = openapi_kinds.of_openapi(json.loads(document.stdout))
    folder = paths.root() / "tools" / "schemas"
    kept = {
        path.relative_to(folder): json.loads(path.read_text())
        for path in (folder / "kubernetes").rglob("*.json")
    }
    groups = {path.parts[1] for path in kept}  # other tests add kinds of other groups
    kinds = (own_kinds.FAIRLEADS, own_kinds.POLICIES, own_kinds.EXCEPTIONS)
    ours = {f"{kind}.json" for _, kind, _ in kinds}
    of_kubernetes = {
        Path(path): schema
        for path, schema in served.items()
        if path.parts[1] in groups and path.name not in ours
    }
    assert of_kubernetes == kept

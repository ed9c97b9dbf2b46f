"""`fairlead place --apply` in two member clusters: what runs there after a decision, after a lost
certification, and after whatever comes in between."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.cli.place import command
from fairlead.clusters import registry
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import waiting
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.federation.members import FIELD_MANAGER
from fairlead.kube import clients
from fairlead.operations import up
from fairlead.settings.models import Settings

pytestmark = pytest.mark.skipif(
    registry.of_environment().kind != "embedded", reason="the members are embedded clusters"
)
CLUSTERS = ("eu-frankfurt", "us-dallas")
CONTAINERS = [{"name": "main", "image": "registry.example.com/shop:1"}]


@pytest.fixture(scope="module")
def members() -> Iterator[dict[str, EmbeddedCluster]]:
    """The running members, by the names that the data have for them."""
    with ExitStack() as running:
        yield {
            name: running.enter_context(
                up.member(f"{name}-{os.getpid()}", Settings(), {"pool1": 2}, progress=Progress())
            )
            for name in CLUSTERS
        }


@pytest.fixture
def objects(members: dict[str, EmbeddedCluster]) -> dict[str, clients.Objects]:
    """The API of each member, as its administrator."""
    return {name: member.objects() for name, member in members.items()}


class Federation:
    """Manifests and data in a folder, and `fairlead place --apply` on them."""

    def __init__(
        self, folder: Path, members: dict[str, EmbeddedCluster], objects: Any, namespace: str
    ) -> None:
        self.folder = folder
        self.members = members
        self.objects = objects
        self.namespace = namespace
        self.certified = {name: ["soc2"] for name in CLUSTERS}

    def write(self, *manifests: dict[str, Any], customer: str = "northwind") -> None:
        """Write these manifests, with their namespace."""
        labels = {"customer": customer}
        namespace = {"name": self.namespace, "labels": labels}
        documents = [{"apiVersion": "v1", "kind": "Namespace", "metadata": namespace}, *manifests]
        (self.folder / "app.yaml").write_text(yaml.safe_dump_all(documents))

    def manifest(self, kind: str, name: str, **parts: Any) -> dict[str, Any]:
        """A manifest in the namespace; with a spec, a workload."""
        group = {"Job": "batch/v1"}.get(kind, "apps/v1" if "spec" in parts else "v1")
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": group, "kind": kind, "metadata": metadata, **parts}

    def deployment(self, name: str = "web", replicas: int = 6) -> dict[str, Any]:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}}
        selector = {"matchLabels": labels}
        spec = {"replicas": replicas, "selector": selector, "template": template}
        return self.manifest("Deployment", name, spec=spec)

    def place(self, *arguments: str, contexts: dict[str, str] | None = None) -> Result:
        """Run the command; `contexts` are other ones than the members' own."""
        clusters = {
            name: {"jurisdiction": "eu", "location": "on-prem", "certifications": certified}
            for name, certified in self.certified.items()
        }
        customers = {"northwind": {"jurisdictions": ["eu"], "certifications": ["soc2"]}}
        data = {"placement": {"clusters": clusters, "customers": customers}}
        (self.folder / "data.yaml").write_text(json.dumps(data))
        own = {name: f"fairlead-{member.name}" for name, member in self.members.items()}
        named = [f"--member={name}={context}" for name, context in (contexts or own).items()]
        return CliRunner().invoke(
            command,
            [
                f"-f{self.folder / 'app.yaml'}",
                f"--data={self.folder / 'data.yaml'}",
                "--apply",
                "-ojson",
                *named,
                *arguments,
            ],
            env={"KUBECONFIG": ":".join(str(each.kubeconfig) for each in self.members.values())},
            standalone_mode=False,
            catch_exceptions=False,
        )

    def actions(self, result: Result) -> dict[str, list[str]]:
        """What the command did in each cluster, such as `Deployment web created`."""
        did: dict[str, list[str]] = {}
        for row in json.loads(result.stdout):
            if row["action"] != "unchanged":
                did.setdefault(row["cluster"], []).append(
                    f"{row['kind']} {row['name']} {row['action']}"
                )
        return did

    def running(self, labels: str = "app=web") -> dict[str, int]:
        """The pods that run in each cluster."""
        return {
            name: sum(
                pod["status"].get("phase") == "Running"
                and not pod["metadata"].get("deletionTimestamp")
                for pod in objects.list("v1", "Pod", self.namespace, labels)
            )
            for name, objects in self.objects.items()
        }

    def until_running(self, **counts: int) -> None:
        """Wait until just so many pods run; clusters are named with _ for -."""
        wanted = {name: counts[name.replace("-", "_")] for name in CLUSTERS}
        waiting.until(
            lambda: self.running() == wanted, deadline=120, what=f"the running pods are {wanted}"
        )

    def versions(self) -> dict[str, list[str]]:
        """The versions of all objects of the namespace that the command applied."""
        return {
            name: [
                f"{kind} {each['metadata']['name']} {each['metadata']['resourceVersion']}"
                for version, kind in (("apps/v1", "Deployment"), ("v1", "ConfigMap"))
                for each in objects.list(version, kind, self.namespace)
                if each["metadata"]["name"] != "kube-root-ca.crt"
            ]
            for name, objects in self.objects.items()
        }


@pytest.fixture
def federation(
    tmp_path: Path,
    members: dict[str, EmbeddedCluster],
    objects: dict[str, clients.Objects],
    request: pytest.FixtureRequest,
) -> Federation:
    """A federation with a namespace of its own."""
    number = request.session.items.index(request.node)
    return Federation(tmp_path, members, objects, f"shop-{number}")


def test_replicas_run_as_decided_and_follow_a_lost_certification(federation: Federation) -> None:
    config = federation.manifest("ConfigMap", "settings", data={"color": "blue"})
    federation.write(config, federation.deployment())
    first = federation.place()
    assert (first.return_value, first.stderr) == (0, "")
    assert federation.actions(first) == {
        name: [
            f"Namespace {federation.namespace} created",
            "ConfigMap settings created",
            "Deployment web created",
        ]
        for name in CLUSTERS
    }
    federation.until_running(eu_frankfurt=3, us_dallas=3)

    versions = federation.versions()
    second = federation.place()
    assert second.return_value == 0
    assert federation.actions(second) == {}
    assert federation.versions() == versions

    federation.certified["us-dallas"] = []
    third = federation.place()
    assert third.return_value == 0
    assert federation.actions(third) == {
        "eu-frankfurt": ["Deployment web configured"],
        "us-dallas": ["Deployment web deleted", "ConfigMap settings deleted"],
    }
    # What was removed in us-dallas was ready in eu-frankfurt before.
    assert federation.running()["eu-frankfurt"] == 6
    federation.until_running(eu_frankfurt=6, us_dallas=0)
    assert federation.versions()["us-dallas"] == []
    assert federation.actions(federation.place()) == {}

    federation.certified["us-dallas"] = ["soc2"]
    assert federation.place().return_value == 0
    federation.until_running(eu_frankfurt=3, us_dallas=3)


def test_nothing_is_taken_away_before_the_new_place_is_ready(federation: Federation) -> None:
    federation.write(federation.deployment())
    federation.certified["us-dallas"] = []
    federation.place()
    federation.until_running(eu_frankfurt=6, us_dallas=0)
    nodes = federation.objects["us-dallas"].list("v1", "Node", None)
    for node in nodes:  # no pod can start there
        federation.objects["us-dallas"].merge(node, {"spec": {"unschedulable": True}})
    federation.certified = {"eu-frankfurt": [], "us-dallas": ["soc2"]}
    result = federation.place("--timeout=1")
    assert result.return_value == 1
    title = f"Deployment {federation.namespace}/web"
    assert f"error: {title} stays as it is in eu-frankfurt: " in result.stderr
    assert "0 of 6 pods are available in us-dallas" in result.stderr
    assert federation.running() == {"eu-frankfurt": 6, "us-dallas": 0}
    for node in nodes:
        federation.objects["us-dallas"].merge(node, {"spec": {"unschedulable": None}})
    again = federation.place()  # goes on where the first one ended
    assert (again.return_value, again.stderr) == (0, "")
    assert federation.actions(again) == {"eu-frankfurt": ["Deployment web deleted"]}
    federation.until_running(eu_frankfurt=0, us_dallas=6)


def test_a_member_that_is_away_is_named_and_loses_nothing(
    federation: Federation, tmp_path: Path
) -> None:
    federation.write(federation.deployment())
    document = yaml.safe_load(federation.members["us-dallas"].kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    away = tmp_path / "away.yaml"
    away.write_text(yaml.safe_dump(document))
    contexts = {name: f"fairlead-{each.name}" for name, each in federation.members.items()}
    own = yaml.safe_load(federation.members["eu-frankfurt"].kubeconfig.read_text())
    for section in ("clusters", "contexts", "users"):
        document[section] += own[section]
    both = tmp_path / "both.yaml"
    both.write_text(yaml.safe_dump(document))
    # Each has a cluster, a user and a context of its own name.
    result = federation.place(f"--kubeconfig={both}", contexts=contexts)
    assert result.return_value == 1
    assert "error: us-dallas: " in result.stderr
    assert "the API server cannot be reached" in result.stderr
    assert set(federation.actions(result)) == {"eu-frankfurt"}
    federation.until_running(eu_frankfurt=3, us_dallas=0)

    # The cluster that is away would get the replicas of eu-frankfurt: they stay.
    federation.certified["eu-frankfurt"] = []
    result = federation.place(f"--kubeconfig={both}", contexts=contexts)
    assert result.return_value == 1
    assert "web stays as it is in eu-frankfurt: not all of it could be applied" in result.stderr
    assert federation.running() == {"eu-frankfurt": 3, "us-dallas": 0}

    federation.certified["eu-frankfurt"] = ["soc2"]
    assert federation.place().return_value == 0
    federation.until_running(eu_frankfurt=3, us_dallas=3)


def test_what_others_made_is_neither_changed_nor_removed(federation: Federation) -> None:
    federation.write(federation.deployment())
    theirs = federation.objects["us-dallas"]
    theirs.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": federation.namespace}}
    )
    theirs.create(federation.deployment(replicas=1))
    before = federation.versions()["us-dallas"]
    result = federation.place()
    assert result.return_value == 1
    assert (
        f"error: us-dallas: Deployment {federation.namespace}/web is there already, and `fairlead "
        "place` did not make it: remove it there, or leave it out here"
    ) in result.stderr
    federation.certified["us-dallas"] = []
    assert federation.place().return_value == 0
    live = theirs.get("apps/v1", "Deployment", "web", federation.namespace) or {}
    assert live["spec"]["replicas"] == 1
    assert [line.rpartition(" ")[0] for line in federation.versions()["us-dallas"]] == [
        line.rpartition(" ")[0] for line in before
    ]
    assert not any(entry["manager"] == FIELD_MANAGER for entry in live["metadata"]["managedFields"])


def test_decisions_with_errors_change_nothing_at_all(federation: Federation) -> None:
    unknown = federation.deployment("unknown")
    unknown["metadata"]["annotations"] = {"customer": "acme"}
    federation.write(federation.deployment(), unknown)
    result = federation.place()
    assert result.return_value == 1
    assert 'unknown: customer: customer "acme" is not known' in result.stderr
    assert "nothing was changed" in result.stderr
    assert all(
        objects.get("v1", "Namespace", federation.namespace) is None
        for objects in federation.objects.values()
    )


def test_members_that_are_missing_or_one_cluster_are_refused(federation: Federation) -> None:
    federation.write(federation.deployment())
    context = f"fairlead-{federation.members['eu-frankfurt'].name}"
    with pytest.raises(UsageError, match=r"no members: us-dallas\. Say where they are"):
        federation.place(contexts={"eu-frankfurt": context})
    with pytest.raises(UsageError, match="lead to the same cluster"):
        federation.place(contexts=dict.fromkeys(CLUSTERS, context))
    with pytest.raises(UsageError, match="no context 'nowhere'"):
        federation.place(contexts={"eu-frankfurt": context, "us-dallas": "nowhere"})
    assert federation.objects["eu-frankfurt"].get("v1", "Namespace", federation.namespace) is None


def test_a_job_is_divided_once_and_not_moved(federation: Federation) -> None:
    template = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
    spec = {"parallelism": 2, "completions": 5, "template": template}
    federation.write(federation.manifest("Job", "import", spec=spec))
    assert federation.place().return_value == 0

    def divided() -> dict[str, tuple[int, int]]:
        jobs = {
            name: objects.get("batch/v1", "Job", "import", federation.namespace)
            for name, objects in federation.objects.items()
        }
        return {
            name: (job["spec"]["parallelism"], job["spec"]["completions"])
            for name, job in jobs.items()
            if job
        }

    assert divided() == {"eu-frankfurt": (1, 3), "us-dallas": (1, 2)}
    assert federation.actions(federation.place()) == {}
    federation.certified["us-dallas"] = []
    result = federation.place()
    assert result.return_value == 1
    assert "still runs in us-dallas: a Job is not moved" in result.stderr
    assert divided() == {"eu-frankfurt": (1, 3), "us-dallas": (1, 2)}


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_other_kinds_move_as_well(federation: Federation, kind: str) -> None:
    workload = {**federation.deployment(replicas=3), "kind": kind}
    if kind == "StatefulSet":
        workload["spec"]["serviceName"] = "web"
    federation.write(workload)
    assert federation.place().return_value == 0
    federation.until_running(eu_frankfurt=2, us_dallas=1)
    federation.certified["eu-frankfurt"] = []
    assert federation.place().return_value == 0
    federation.until_running(eu_frankfurt=0, us_dallas=3)

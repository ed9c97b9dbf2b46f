"""Decisions carried out in two member clusters: what runs there after a decision, after a lost
certification, and after whatever comes in between."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import placed
import pytest
import yaml
from click.testing import CliRunner

from fairlead.analysis.place import Placement
from fairlead.cli.place import command
from fairlead.clusters import registry
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import waiting
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.federation import execution, readiness, shares
from fairlead.federation.members import FIELD_MANAGER, Member, parsed
from fairlead.operations import up
from fairlead.settings.models import Settings

pytestmark = pytest.mark.skipif(
    registry.of_environment().kind != "embedded", reason="the members are embedded clusters"
)
CLUSTERS = ("eu-frankfurt", "us-dallas")
BOTH = dict.fromkeys(CLUSTERS, 1.0)
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "registry.example.com/shop:1"}]},
}


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, EmbeddedCluster]]:
    """The running member clusters, by the names that decisions have for them."""
    with ExitStack() as running:
        yield {
            name: running.enter_context(
                up.member(f"{name}-{os.getpid()}", Settings(), {"pool1": 2}, progress=Progress())
            )
            for name in CLUSTERS
        }


class Federation:
    """The members, and a namespace in them."""

    def __init__(self, clusters: Mapping[str, EmbeddedCluster], namespace: str) -> None:
        self.clusters = clusters
        self.namespace = namespace
        self.members = [
            Member(name, cluster.kubeconfig.read_text()) for name, cluster in clusters.items()
        ]
        self.objects = {name: cluster.objects() for name, cluster in clusters.items()}

    def object(self, kind: str, **parts: Any) -> dict[str, Any]:
        """A manifest of a core object in the namespace; of the namespace itself, too."""
        metadata = {"name": "any", "namespace": self.namespace}
        if kind == "Namespace":
            metadata = {"name": self.namespace}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **parts}

    def web(self, weights: Mapping[str, float], kind: str = "Deployment", **spec: Any) -> Placement:
        """The decision to run a workload with 6 pods on these clusters."""
        parts: dict[str, Any] = {
            "selector": {"matchLabels": {"app": "web"}},
            "template": TEMPLATE,
            **spec,
        }
        return placed.placement(weights, kind=kind, namespace=self.namespace, **parts)

    def carry_out(
        self,
        *parts: Placement | dict[str, Any],
        members: list[Member] | None = None,
        timeout: float = 120,
    ) -> execution.Report:
        """Carry out decisions, with the manifests beside them."""
        read = placed.result(self.object("Namespace"), *parts)
        return execution.execute(
            shares.of(read), members or self.members, timeout=timeout, progress=Progress()
        )

    def running(self) -> dict[str, int]:
        """The pods that run in each cluster."""
        return {
            name: sum(
                pod["status"].get("phase") == "Running"
                and not pod["metadata"].get("deletionTimestamp")
                for pod in objects.list("v1", "Pod", self.namespace)
            )
            for name, objects in self.objects.items()
        }

    def until_running(self, *counts: int) -> None:
        """Wait until just so many pods run in each of CLUSTERS."""
        wanted = dict(zip(CLUSTERS, counts, strict=True))
        waiting.until(
            lambda: self.running() == wanted, deadline=120, what=f"the running pods are {wanted}"
        )

    def get(self, cluster: str, kind: str = "Deployment", version: str = "apps/v1") -> Any:
        """A workload of the namespace; None if there is none."""
        return self.objects[cluster].get(version, kind, "web", self.namespace)

    def versions(self) -> list[str]:
        """The versions of what was applied, without what controllers write."""
        return [
            each["metadata"]["resourceVersion"]
            for objects in self.objects.values()
            for each in objects.list("v1", "ConfigMap", self.namespace)
        ] + [str(self.get(name)["metadata"]["generation"]) for name in CLUSTERS]


def actions(report: execution.Report) -> dict[str, list[str]]:
    """What was done in each cluster, such as `deployment/web created`."""
    done = {
        name: [f"{each.reference} {each.action}" for each in outcomes if each.action != "unchanged"]
        for name, outcomes in report.outcomes.items()
    }
    return {name: lines for name, lines in done.items() if lines}


@pytest.fixture
def federation(clusters: dict[str, EmbeddedCluster], request: pytest.FixtureRequest) -> Federation:
    """The members, with a namespace of the test's own."""
    return Federation(clusters, f"shop-{request.session.items.index(request.node)}")


def test_replicas_run_as_opa_decides_and_follow_a_lost_certification(
    federation: Federation, tmp_path: Path
) -> None:
    """The whole command, which finds the members by their contexts."""
    workload = federation.web(BOTH).document.value
    workload["metadata"]["annotations"] = {"customer": "northwind"}
    manifests = [federation.object("Namespace"), workload]
    (tmp_path / "app.yaml").write_text(yaml.safe_dump_all(manifests))

    def place(certifications: list[str]) -> tuple[int, str, dict[str, list[str]]]:
        cluster = {"jurisdiction": "eu", "location": "on-prem", "certifications": ["soc2"]}
        data = {
            "clusters": {
                "eu-frankfurt": cluster,
                "us-dallas": {**cluster, "certifications": certifications},
            },
            "customers": {"northwind": {"jurisdictions": ["eu"], "certifications": ["soc2"]}},
        }
        (tmp_path / "data.yaml").write_text(json.dumps({"placement": data}))
        named = [
            f"--member={name}=fairlead-{cluster.name}"
            for name, cluster in federation.clusters.items()
        ]
        kubeconfigs = [str(cluster.kubeconfig) for cluster in federation.clusters.values()]
        result = CliRunner().invoke(
            command,
            [
                f"--data={tmp_path / 'data.yaml'}",
                f"--filename={tmp_path / 'app.yaml'}",
                "--apply",
                "-ojson",
                *named,
            ],
            env={"KUBECONFIG": ":".join(kubeconfigs)},
            standalone_mode=False,
            catch_exceptions=False,
        )
        done: dict[str, list[str]] = {}
        for row in json.loads(result.stdout):
            if row["kind"] == "Deployment":
                line = f"{row['name']} {row['action']} {row['replicas']}"
                done.setdefault(row["cluster"], []).append(line)
        return result.return_value, result.stderr, done

    code, errors, done = place(["soc2"])
    assert (code, done) == (0, {name: ["web created 3"] for name in CLUSTERS}), errors
    federation.until_running(3, 3)
    code, errors, done = place([])
    assert (code, done) == (
        0,
        {"eu-frankfurt": ["web configured 6"], "us-dallas": ["web deleted None"]},
    ), errors
    assert federation.running()["eu-frankfurt"] == 6  # before the others went
    federation.until_running(6, 0)


def test_a_second_run_changes_nothing(federation: Federation) -> None:
    parts = (federation.object("ConfigMap", data={"color": "blue"}), federation.web(BOTH))
    first = federation.carry_out(*parts)
    assert first.problems == []
    created = [f"namespace/{federation.namespace}", "configmap/any", "deployment/web"]
    assert actions(first) == {name: [f"{each} created" for each in created] for name in CLUSTERS}
    federation.until_running(3, 3)
    versions = federation.versions()
    second = federation.carry_out(*parts)
    assert (second.problems, actions(second)) == ([], {})
    assert federation.versions() == versions

    moved = federation.carry_out(parts[0], federation.web({"us-dallas": 1}))
    assert moved.problems == []
    assert actions(moved) == {
        "eu-frankfurt": ["deployment/web deleted", "configmap/any deleted"],
        "us-dallas": ["deployment/web configured"],
    }
    assert federation.objects["eu-frankfurt"].get("v1", "Namespace", federation.namespace)
    federation.until_running(0, 6)


def test_nothing_is_taken_away_before_the_new_place_is_ready(federation: Federation) -> None:
    federation.carry_out(federation.web({"eu-frankfurt": 1}))
    federation.until_running(6, 0)
    unready = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"no": "such-node"}}}
    to_dallas = federation.web({"us-dallas": 1}, template=unready)
    report = federation.carry_out(to_dallas, timeout=1)
    assert len(report.problems) == 1
    title = f"Deployment {federation.namespace}/web"
    assert report.problems[0].startswith(f"{title} stays as it is in eu-frankfurt: ")
    assert "0 of 6 pods are available in us-dallas" in report.problems[0]
    assert federation.running() == dict(zip(CLUSTERS, (6, 0), strict=True))
    again = federation.carry_out(federation.web({"us-dallas": 1}))
    assert again.problems == []
    assert actions(again) == {
        "eu-frankfurt": ["deployment/web deleted"],
        "us-dallas": ["deployment/web configured"],
    }
    federation.until_running(0, 6)


def test_a_member_that_is_away_is_named_and_the_next_run_goes_on(federation: Federation) -> None:
    there, away = federation.members
    document = yaml.safe_load(away.kubeconfig)
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    members = [there, Member(away.name, yaml.safe_dump(document))]
    report = federation.carry_out(federation.web(BOTH), members=members)
    assert len(report.problems) == 1
    assert report.problems[0].startswith("us-dallas: ")
    assert "cannot be reached" in report.problems[0]
    assert set(actions(report)) == {"eu-frankfurt"}
    federation.until_running(3, 0)

    # What it should take over stays where it is.
    report = federation.carry_out(federation.web({"us-dallas": 1}), members=members)
    assert len(report.problems) == 2
    assert "web stays as it is in eu-frankfurt: not all of it could" in report.problems[1]
    assert federation.running() == dict(zip(CLUSTERS, (3, 0), strict=True))

    assert federation.carry_out(federation.web(BOTH)).problems == []
    federation.until_running(3, 3)


def test_what_others_made_is_neither_changed_nor_removed(federation: Federation) -> None:
    theirs = federation.objects["us-dallas"]
    theirs.create(federation.object("Namespace"))
    theirs.create(federation.web(BOTH, replicas=1).document.value)
    report = federation.carry_out(federation.web(BOTH))
    assert report.problems == [
        f"us-dallas: Deployment {federation.namespace}/web is there already, and `fairlead place` "
        "did not make it: remove it there, or leave it out here"
    ]
    assert federation.carry_out(federation.web({"eu-frankfurt": 1})).problems == []
    live = federation.get("us-dallas")
    assert (live["spec"]["replicas"], live["metadata"]["generation"]) == (1, 1)
    assert FIELD_MANAGER not in [each["manager"] for each in live["metadata"]["managedFields"]]


def test_wrong_members_are_refused_and_nothing_is_changed(federation: Federation) -> None:
    there, other = federation.members
    web = federation.web(BOTH)
    with pytest.raises(UsageError, match=r"no members: us-dallas\. Say where they are"):
        federation.carry_out(web, members=[there])
    with pytest.raises(UsageError, match="lead to the same cluster"):
        federation.carry_out(web, members=[there, Member(other.name, there.kubeconfig)])
    assert federation.objects["eu-frankfurt"].get("v1", "Namespace", federation.namespace) is None


def test_members_are_named_by_context_or_as_fairlead_up_names_them(federation: Federation) -> None:
    cluster = federation.clusters["us-dallas"]
    context, file = f"fairlead-{cluster.name}", cluster.kubeconfig
    members = parsed([f"us={context}", cluster.name], file)
    assert {member.name for member in members} == {"us", cluster.name}
    for member in members:
        assert member.objects().get("v1", "Namespace", "default")
    for texts, problem in {
        ("us=nowhere",): "no context 'nowhere'",
        ("us=",): "write NAME=CONTEXT",
        ("us",): "no such cluster is running: start it by `fairlead up --member us`",
        (f"us={context}", f"us={context}"): "--member us is named twice",
    }.items():
        with pytest.raises(UsageError, match=problem):
            parsed(texts, file)


def test_a_job_is_divided_once_and_not_moved(federation: Federation) -> None:
    def job(weights: Mapping[str, float], **spec: str) -> Placement:
        template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never", **spec}}
        parts: dict[str, Any] = {"parallelism": 2, "completions": 5, "template": template}
        return placed.placement(weights, kind="Job", namespace=federation.namespace, **parts)

    def divided() -> list[tuple[int, int]]:
        specs = [federation.get(name, "Job", "batch/v1")["spec"] for name in CLUSTERS]
        return [(each["parallelism"], each["completions"]) for each in specs]

    gated = {"schedulerName": "nobody"}  # so that it does not end
    assert federation.carry_out(job(BOTH, **gated)).problems == []
    assert divided() == [(1, 3), (1, 2)]
    assert actions(federation.carry_out(job(BOTH, **gated))) == {}
    report = federation.carry_out(job({"eu-frankfurt": 1}, **gated))
    assert len(report.problems) == 1
    assert "web still runs in us-dallas: a Job is not moved" in report.problems[0]
    assert divided() == [(1, 3), (1, 2)]


def test_a_job_that_has_ended_is_not_done_again_elsewhere(federation: Federation) -> None:
    template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}

    def job(weights: Mapping[str, float]) -> Placement:
        return placed.placement(
            weights, kind="Job", namespace=federation.namespace, parallelism=1, template=template
        )

    assert federation.carry_out(job({"us-dallas": 1})).problems == []
    waiting.until(
        lambda: readiness.has_ended(federation.get("us-dallas", "Job", "batch/v1")),
        deadline=60,
        what="the Job has ended",
    )
    report = federation.carry_out(job({"eu-frankfurt": 1}))
    assert report.problems == []
    assert federation.get("eu-frankfurt", "Job", "batch/v1") is None


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_other_kinds_move_as_well(federation: Federation, kind: str) -> None:
    more: dict[str, Any] = {"serviceName": "web"} if kind == "StatefulSet" else {}
    web = federation.web({"eu-frankfurt": 2, "us-dallas": 1}, kind, replicas=3, **more)
    assert federation.carry_out(web).problems == []
    federation.until_running(2, 1)
    moved = federation.web({"us-dallas": 1}, kind, replicas=3, **more)
    assert federation.carry_out(moved).problems == []
    federation.until_running(0, 3)

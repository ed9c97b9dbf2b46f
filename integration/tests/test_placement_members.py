"""Decisions carried out in two member clusters: what runs there after a decision, after a lost
certification, and after whatever comes in between."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import placed
import pytest
import yaml
from click.testing import CliRunner
from federations import BOTH, CLUSTERS, TEMPLATE, Federation, actions
from waits import until

from fairlead.analysis.place import Placement
from fairlead.cli.placement.place import command
from fairlead.cli.placement.query import command as query_command
from fairlead.clusters import registry
from fairlead.common.errors import UsageError
from fairlead.common.files import Document
from fairlead.demos import federation as federation_demo
from fairlead.federation import live_replicas, readiness
from fairlead.federation.members import FIELD_MANAGER, Member, parsed

pytestmark = pytest.mark.skipif(
    registry.of_environment().kind != "embedded", reason="the members are embedded clusters"
)
ENDING = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
"""The pod template of a Job that ends."""


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


def test_the_demo_counts_what_runs_and_tells_what_it_did_not_expect(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps as those of `fairlead demo --federation`, with one application in two members."""
    clusters = {cluster.name: cluster for cluster in federation.clusters.values()}
    frankfurt, dallas = clusters
    workload = federation.web(BOTH).document.value
    workload["metadata"]["annotations"] = {"customer": "northwind"}
    manifests = [federation.object("Namespace"), workload]
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "web.yaml").write_text(yaml.safe_dump_all(manifests))
    data = f"""
placement:
  customers: {{northwind: {{jurisdictions: [eu], certifications: [soc2]}}}}
  clusters:
    {frankfurt}: {{jurisdiction: eu, location: on-prem, certifications: [soc2]}}
    {dallas}: {{jurisdiction: eu, location: on-prem, certifications: [pci, soc2]}}
"""
    (tmp_path / "data.yaml").write_text(data)

    def play(*counts: int, **step: Any) -> federation_demo.Played:
        running = dict(zip(clusters, counts, strict=True))
        command = "place -f apps --apply MEMBERS"
        played = federation_demo.Step(title="run", command=command, running=running, **step)
        return federation_demo.play(played, clusters, tmp_path)

    assert play(3, 3, prints=[federation.namespace, "created"]).problems == []
    change = federation_demo.Change(old="[pci, soc2]", new="[pci]")
    moved = play(6, 0, change=change, prints=["deleted"])
    assert moved.problems == []
    assert "[pci]" in moved.diff
    monkeypatch.setattr(federation_demo, "_WITHIN", 0.0)
    assert play(6, 1).problems == [f"0 pods run in {dallas}, not 1"]

    rows = query(tmp_path, "eu", f"--member={dallas}", f"--member={frankfurt}")
    here = [row for row in rows if row["namespace"] == federation.namespace]
    assert [(row["cluster"], row["replicas"], row["source"]) for row in here] == [
        (frankfurt, 6, "object")
    ]


def query(folder: Path, jurisdiction: str, *members: str) -> list[dict[str, Any]]:
    """Where the applications of northwind run in the jurisdiction."""
    arguments = ["applications-in-jurisdiction", "--arg=customer=northwind", "-ojson", *members]
    files = [f"--data={folder / 'data.yaml'}", f"-f{folder / 'apps'}"]
    result = CliRunner().invoke(
        query_command,
        [*arguments, f"--arg=jurisdiction={jurisdiction}", *files],
        standalone_mode=False,
        catch_exceptions=False,
    )
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def test_nothing_is_taken_away_before_the_new_place_is_ready(federation: Federation) -> None:
    federation.carry_out(federation.web({"eu-frankfurt": 1}))
    federation.until_running(6, 0)
    unready = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"no": "such-node"}}}
    to_dallas = federation.web({"us-dallas": 1}, template=unready)
    report = federation.carry_out(to_dallas, timeout=1)
    assert len(report.problems) == 1
    title = f"Deployment {federation.namespace}/web"
    assert report.problems[0].startswith(f"{title} stays as it is in eu-frankfurt: ")
    assert "0 of 1 pods are available in us-dallas" in report.problems[0]
    assert federation.running() == dict(zip(CLUSTERS, (6, 0), strict=True))
    again = federation.carry_out(federation.web({"us-dallas": 1}))
    assert again.problems == []
    assert actions(again) == {
        "eu-frankfurt": ["deployment/web deleted"],
        "us-dallas": ["deployment/web configured"],
    }
    federation.until_running(0, 6)


def test_all_that_is_not_ready_in_time_is_named_with_the_whole_time(
    federation: Federation,
) -> None:
    """All moves have the same time, which is over once the first one was waited for."""
    unready = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"no": "such-node"}}}

    def applications(cluster: str, template: dict[str, Any]) -> list[Placement]:
        parts: dict[str, Any] = {
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
        }
        return [
            placed.placement({cluster: 1}, name=name, namespace=federation.namespace, **parts)
            for name in ("first", "second")
        ]

    there, elsewhere = CLUSTERS
    assert federation.carry_out(*applications(there, TEMPLATE)).problems == []
    report = federation.carry_out(*applications(elsewhere, unready), timeout=1)
    assert [problem.split(": ", 1)[1].split(" (")[0] for problem in report.problems] == [
        "this did not happen within 1 s: its pods are available in its other clusters"
    ] * 2


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
        template = {"spec": {**ENDING["spec"], **spec}}
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
    def job(weights: Mapping[str, float]) -> Placement:
        return placed.placement(
            weights, kind="Job", namespace=federation.namespace, parallelism=1, template=ENDING
        )

    assert federation.carry_out(job({"us-dallas": 1})).problems == []
    until(
        lambda: readiness.has_ended(federation.get("us-dallas", "Job", "batch/v1")),
        what="the Job has ended",
    )
    report = federation.carry_out(job({"eu-frankfurt": 1}))
    assert report.problems == []
    assert federation.get("eu-frankfurt", "Job", "batch/v1") is None


def test_a_cluster_that_is_not_given_is_noted_and_what_runs_there_stays(
    federation: Federation, tmp_path: Path
) -> None:
    """us-dallas loses its certification, and whoever moves the applications leaves it out."""
    job = placed.placement(
        BOTH,
        kind="Job",
        name="once",
        parallelism=1,
        template=ENDING,
        namespace=federation.namespace,
    ).document.value
    manifests = [federation.object("Namespace"), federation.web(BOTH).document.value, job]
    for workload in manifests[1:]:
        workload["metadata"]["annotations"] = {"customer": "northwind"}
    files = {"app": tmp_path / "app.yaml", "web": tmp_path / "web.yaml"}
    files["app"].write_text(yaml.safe_dump_all(manifests))
    files["web"].write_text(yaml.safe_dump_all(manifests[:2]))
    frankfurt, dallas = CLUSTERS

    def place(file: str, *arguments: str) -> tuple[int, list[str]]:
        """The exit code, and what is said on stderr beside the progress."""
        result = CliRunner().invoke(
            command,
            [f"--data={tmp_path / 'data.json'}", f"-f{files[file]}", "--apply", *arguments],
            env={
                "KUBECONFIG": ":".join(
                    str(each.kubeconfig) for each in federation.clusters.values()
                )
            },
            standalone_mode=False,
            catch_exceptions=False,
        )
        said = [line for line in result.stderr.splitlines() if "no member" in line or "Job" in line]
        return result.return_value, said

    def write(certified: str) -> None:
        """Data in which one cluster alone has what the customer requires."""
        clusters = {
            name: {
                "jurisdiction": "eu",
                "location": "on-prem",
                "certifications": ["soc2"] if name == certified else [],
            }
            for name in CLUSTERS
        }
        customers = {"northwind": {"jurisdictions": ["eu"], "certifications": ["soc2"]}}
        data = {"placement": {"clusters": clusters, "customers": customers}}
        (tmp_path / "data.json").write_text(json.dumps(data))

    def jobs() -> list[bool]:
        """Whether each cluster has the Job."""
        live = [
            objects.get("batch/v1", "Job", "once", federation.namespace)
            for objects in federation.objects.values()
        ]
        return [each is not None for each in live]

    named = {
        name: f"--member={name}=fairlead-{cluster.name}"
        for name, cluster in federation.clusters.items()
    }
    write(dallas)
    assert place("app", *named.values()) == (0, [])
    federation.until_running(0, 6)
    document = Document(tmp_path, job, None)
    ended = {f"Job {federation.namespace}/once": {dallas: 0}}
    until(
        lambda: live_replicas.of([document], federation.members) == ended,
        what="the Job has ended",
    )

    write(frankfurt)
    note = (
        f"{dallas} is no member here: what runs there goes on, and Jobs that ran there start again "
        "in members. Give it by --member"
    )
    assert place("web", named[frankfurt]) == (0, [note])
    federation.until_running(6, 6)
    assert place("app", *named.values()) == (0, [])
    assert jobs() == [False, True]
    federation.until_running(6, 0)


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_other_kinds_move_as_well(federation: Federation, kind: str) -> None:
    more: dict[str, Any] = {"serviceName": "web"} if kind == "StatefulSet" else {}
    web = federation.web({"eu-frankfurt": 2, "us-dallas": 1}, kind, replicas=3, **more)
    assert federation.carry_out(web).problems == []
    federation.until_running(2, 1)
    moved = federation.web({"us-dallas": 1}, kind, replicas=3, **more)
    assert federation.carry_out(moved).problems == []
    federation.until_running(0, 3)

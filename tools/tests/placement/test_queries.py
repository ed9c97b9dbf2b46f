"""`fairlead query` answers with the real OPA where applications and pods run."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.admission.inventory import Inventory
from fairlead.cli.placement.query import command
from fairlead.clusters.base import Cluster
from fairlead.common import paths
from fairlead.common.errors import InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.kube.errors import Refused
from fairlead.kube.resources import Resource
from fairlead.placement import object_trees, queries, what_if
from fairlead.placement.placements import ANNOTATION
from fairlead.placement.what_if import Changes
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

SCENARIO = paths.root() / "testdata" / "placement"
DATA = SCENARIO / "data.yaml"
APPS = SCENARIO / "apps"
IN_EU = ("applications-in-jurisdiction", "--arg", "jurisdiction=eu")


def run(*arguments: str | Path, data: Path = DATA, text: str | None = None) -> Result:
    return CliRunner().invoke(
        command,
        ["--data", str(data), *map(str, arguments)],
        input=text,
        standalone_mode=False,
        catch_exceptions=False,
    )


def rows(*arguments: str | Path, **more: Any) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(run(*arguments, "-o", "json", **more).stdout)
    return answer


def written(path: Path, *objects: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return path


def deployment(name: str, replicas: int = 1, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
        "spec": {"replicas": replicas},
    }


def pod(name: str, node: str, namespace: str = "training") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": node, "containers": []},
    }


def labelled(kind: str, name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}}


def test_objects_of_a_member_count_more_than_what_a_manifest_says(tmp_path: Path) -> None:
    preferences = json.dumps({"clusters": {"eu-frankfurt": {"weight": 1}, "eu-west-1": {}}})
    host = written(
        tmp_path / "host.json",
        deployment("web", 6, **{"customer": "alpenbank", ANNOTATION: preferences}),
    )
    member = written(
        tmp_path / "member.json",
        deployment("web", 2, customer="alpenbank"),
        deployment("strangers", 2, customer="globalshop"),
    )
    answer = rows(
        *IN_EU, "--arg", "customer=alpenbank", "-f", host, "--member", f"eu-west-1={member}"
    )
    common = {"kind": "Deployment", "namespace": "shop", "name": "web"}
    assert answer == [
        {**common, "cluster": "eu-frankfurt", "replicas": None, "source": "annotation"},
        {**common, "cluster": "eu-west-1", "replicas": 2, "source": "object"},
    ]


def running(name: str, owner: str | None = None, **metadata: Any) -> dict[str, Any]:
    """A pod in the namespace shop, perhaps made by another object, `GROUP/VERSION/KIND/NAME`."""
    value = pod(name, "node", "shop")
    value["metadata"] |= metadata
    if owner:
        api_version, kind, owner_name = owner.rsplit("/", 2)
        reference = {"apiVersion": api_version, "kind": kind, "name": owner_name}
        value["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return value


def of_shop(kind: str, name: str, api_version: str = "apps/v1", **parts: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", **parts.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


TEMPLATE: dict[str, Any] = {"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}
EVERYTHING = [
    labelled("Namespace", "shop", customer="alpenbank"),
    running("debug"),
    running("pg-1", "postgresql.cnpg.io/v1/Cluster/pg"),
    running("ended") | {"status": {"phase": "Succeeded"}},
    of_shop("Deployment", "web", **TEMPLATE),
    {**running("web-1-x", "apps/v1/ReplicaSet/web-1"), "apiVersion": "v1"},
    of_shop(
        "ReplicaSet",
        "web-1",
        metadata={
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
            ]
        },
    ),
    of_shop("DaemonSet", "agent", status={"desiredNumberScheduled": 4}, **TEMPLATE),
    running("agent-x", "apps/v1/DaemonSet/agent"),
    of_shop("CronJob", "nightly", "batch/v1", spec={"jobTemplate": {"spec": {"parallelism": 2}}}),
    of_shop("ReplicationController", "old", "v1", spec={"replicas": 2}),
    of_shop("Rollout", "green", "argoproj.io/v1alpha1", spec={"replicas": 5, **TEMPLATE["spec"]}),
    running("green-x", "argoproj.io/v1alpha1/Rollout/green"),
    running("stolen", "apps/v1/DaemonSet/agent", annotations={"customer": "globalshop"}),
    of_shop("Secret", "keys", "v1"),
    of_shop("ConfigMap", "a", "v1"),
    of_shop("ConfigMap", "b", "v1", metadata={"labels": {"customer": "globalshop"}}),
    {**running("nobodys"), "metadata": {"name": "nobodys", "namespace": "other"}},
    {**running("system"), "metadata": {"name": "dns", "namespace": "kube-system"}},
]


def test_every_pod_and_every_kind_counts(tmp_path: Path) -> None:
    member = written(tmp_path / "member.json", *EVERYTHING)
    arguments = (*IN_EU, "--arg", "customer=alpenbank", "--member", f"eu-west-1={member}")
    answer = {
        (row["kind"], row["name"]): (row["replicas"], row["source"]) for row in rows(*arguments)
    }
    assert answer == {
        ("Pod", "debug"): (1, "object"),
        ("Pod", "pg-1"): (1, "object of Cluster pg"),
        ("Deployment", "web"): (1, "object"),
        ("DaemonSet", "agent"): (4, "object"),
        ("CronJob", "nightly"): (2, "object"),
        ("ReplicationController", "old"): (2, "object"),
        ("Rollout", "green"): (5, "object"),
    }
    strangers = rows(*IN_EU, "--arg", "customer=globalshop", "--member", f"eu-west-1={member}")
    assert [row["name"] for row in strangers] == ["stolen"], (
        "an owner of another customer hides none"
    )
    affected = rows(
        *("customers-affected", "--arg", "cluster=eu-west-1", "--arg", "certification=pci"),
        *("--member", f"eu-west-1={member}"),
    )
    assert {row["name"] for row in affected} == {name for _, name in answer}


def test_an_answer_names_what_it_does_not_count(tmp_path: Path) -> None:
    member = written(tmp_path / "member.json", *EVERYTHING)
    result = run(*IN_EU, "--arg", "customer=alpenbank", "--member", f"eu-west-1={member}")
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: cluster")]
    assert notes == [
        "note: cluster eu-west-1 has other objects of customer alpenbank: ConfigMap (1), "
        "Secret (1)",
        "note: cluster eu-west-1: nobody says whose 1 applications there are, by themselves or by "
        "their namespaces",
        "note: cluster eu-west-1: its objects have no Job, StatefulSet: if there are any, the "
        "answer lacks them",
    ]


def test_what_nobody_may_list_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def trees(_inventory: Inventory, resources: list[Resource]) -> dict[str, Any]:
        (resource,) = resources
        if resource.name == "pods":
            raise Refused("GET /api/v1/pods", 403, None, "pods is forbidden")
        return {resource.name: {}}

    monkeypatch.setattr(Inventory, "__init__", lambda *_: None)
    monkeypatch.setattr(object_trees, "ApiRequests", lambda _: None)
    monkeypatch.setattr(Inventory, "trees", trees)
    cluster = cast(Cluster, SimpleNamespace(kubeconfig=None))
    seen = object_trees.of_cluster(cluster, about_placement=True, progress=Progress())
    assert {"cronjobs", "daemonsets", "deployments"} < seen.tree.keys()
    (sentence,) = seen.unseen
    assert sentence.startswith("you may not list Pods, so none of them is in the answer: GET")


def test_an_answer_says_what_it_does_not_rest_upon(tmp_path: Path) -> None:
    member = written(tmp_path / "member.json", deployment("web", customer="alpenbank"))
    result = run(*IN_EU, "--arg", "customer=alpenbank", "--member", f"eu-west-1={member}")
    assert result.return_value == 0
    assert result.stderr.count("note: no objects of cluster") == 1
    assert "note: no objects of cluster eu-frankfurt were given" in result.stderr


def test_who_is_affected_by_a_lost_certification() -> None:
    answer = rows(
        *("customers-affected", "--arg", "cluster=us-dallas", "--arg", "certification=hipaa"),
        *("-f", APPS),
    )
    assert {row["customer"] for row in answer} == {"medicare-plus"}
    assert all(row["now"] == ["us-dallas"] and row["then"] == [] for row in answer)
    assert all("no cluster: " in row["errors"] for row in answer)


def test_a_price_changes_what_what_if_says() -> None:
    answer = rows("price-changes", "--arg", "cluster=us-dallas", "--arg", "price=0.5", "-f", APPS)
    changes = Changes.parse([], [], ["us-dallas=0.5"])
    compared = what_if.compare([APPS], [str(DATA)], changes, progress=Progress())
    assert {
        f"{row['kind']} {row['namespace']}/{row['name']}": (
            *(row["now"], row["then"]),
            *(row["costNow"], row["costThen"]),
        )
        for row in answer
    } == {
        each.now.title: (
            *(sorted(each.now.clusters), sorted(each.then.clusters)),
            *(each.now.cost, each.then.cost),
        )
        for each in compared
        if each.changed
    }
    assert any(row["now"] == row["then"] for row in answer), "only the cost of some changes"


def test_prices_change_nothing_that_reads_none() -> None:
    price = ("price-changes", "--arg", "cluster=us-dallas", "--arg")
    assert isinstance(rows(*price, "price=0.5", "-f", APPS / "medicare-plus.yaml"), list)
    # A price that is none is a mistake of the question, as what-if has it.
    with pytest.raises(UsageError, match="the price -1 of cpu") as raised:
        rows(*price, "price=-1", "-f", APPS / "medicare-plus.yaml")
    assert raised.value.exit_code == 2


def test_pods_outside_their_pool_by_files_without_any_data(tmp_path: Path) -> None:
    objects = written(
        tmp_path / "objects.json",
        labelled("Namespace", "training", agentpool="gpu"),
        labelled("Namespace", "kube-system", agentpool="gpu"),
        labelled("Node", "gpu-1", agentpool="gpu"),
        labelled("Node", "cheap-1", agentpool="cheap"),
        pod("right", "gpu-1"),
        pod("wrong", "cheap-1"),
        pod("exempt", "cheap-1", "kube-system"),
    )
    answer = rows("pods-outside-pool", "-f", objects, data=tmp_path / "none.yaml")
    assert answer == [
        {
            "cluster": "",
            "namespace": "training",
            "name": "wrong",
            "pool": "gpu",
            "node": "cheap-1",
            "lacks": ["agentpool=gpu"],
        }
    ]
    members = rows("pods-outside-pool", "--member", f"us-dallas={objects}")
    assert [row["cluster"] for row in members] == ["us-dallas"]


def test_settings_say_what_a_pool_is(tmp_path: Path) -> None:
    settings = tmp_path / "fairlead.yaml"
    settings.write_text("namespaceLabel: team\npools: {ml: {nodeSelector: {zone: a}}}\n")
    objects = written(
        tmp_path / "objects.json",
        labelled("Namespace", "training", team="ml"),
        labelled("Node", "one", zone="a"),
        labelled("Node", "two", zone="b"),
        pod("right", "one"),
        pod("wrong", "two"),
    )
    answer = rows("pods-outside-pool", "-f", objects, "--settings", settings)
    assert [(row["name"], row["lacks"]) for row in answer] == [("wrong", ["zone=a"])]


def test_as_csv_nothing_is_a_formula(tmp_path: Path) -> None:
    data = yaml.safe_load(DATA.read_text())
    data["placement"]["customers"]["=HYPERLINK(1)"] = {
        "jurisdictions": ["eu"],
        "certifications": ["pci"],
    }
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(data))
    host = written(tmp_path / "host.json", deployment("web", customer="=HYPERLINK(1)"))
    result = run(
        *("customers-affected", "--arg", "cluster=eu-frankfurt", "--arg", "certification=pci"),
        *("-f", host, "-o", "csv"),
        data=tmp_path / "data.yaml",
    )
    (line,) = csv.DictReader(io.StringIO(result.stdout))
    assert line["customer"] == "'=HYPERLINK(1)"
    assert line["now"] == "eu-frankfurt"
    assert line["name"] == "web"


def test_the_list_says_what_each_query_takes() -> None:
    listed = {query["name"]: query for query in rows("--list")}
    assert sorted(listed) == [
        "applications-in-jurisdiction",
        "customers-affected",
        "pods-outside-pool",
        "price-changes",
    ]
    types = {each["name"]: each["type"] for each in listed["price-changes"]["arguments"]}
    assert types == {"cluster": "string", "resource": "string", "price": "number"}
    assert all(query["title"] and query["description"] for query in listed.values())
    table = run("--list").stdout.splitlines()
    assert any("[--arg resource=STRING] --arg price=NUMBER" in line for line in table)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("customer-affected",), "did you mean 'customers-affected'"),
        (("weather",), "one of applications-in-jurisdiction, customers-affected"),
        ((), "which query"),
        (("--list", "price-changes"), "takes no name"),
        (IN_EU, "lacks customer: write `fairlead query applications-in-jurisdiction --arg"),
        ((*IN_EU, "--arg", "customer"), "write it as NAME=VALUE"),
        ((*IN_EU, "--arg", "client=x"), "takes no argument 'client'"),
        ((*IN_EU, "--arg", "jurisdiction=us"), "given twice"),
        (("price-changes", "--arg", "cluster=x", "--arg", "price=nan"), "a number is expected"),
        (
            ("price-changes", "--arg", "cluster=us-dallas", "--arg", "price=-1", "-f", APPS),
            'the price -1 of cpu in cluster "us-dallas" is no number from 0 to 1000000000',
        ),
        (("pods-outside-pool",), "nothing to look at"),
        (("pods-outside-pool", "--live", "-f", APPS), "give one of them"),
        (("pods-outside-pool", "--member", "us-dallas="), "write CLUSTER=FILE"),
        (("pods-outside-pool", "--member", "us-dallas"), "write CLUSTER=FILE"),
        ((*IN_EU, "--arg", "customer=acme", "-f", APPS), 'customer "acme" is not known'),
        (
            ("price-changes", "--arg", "cluster=x", "--arg", "price=1", "-f", APPS),
            'cluster "x" is not known: placement.clusters has asia-se-3',
        ),
    ],
)
def test_questions_with_a_mistake(arguments: tuple[str | Path, ...], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        run(*arguments)
    assert words in str(raised.value)
    assert raised.value.exit_code == 2


def test_files_with_a_mistake(tmp_path: Path) -> None:
    twice = written(tmp_path / "twice.json", deployment("web"), deployment("web"))
    with pytest.raises(InputError, match="Deployment shop/web was read before"):
        run("pods-outside-pool", "-f", twice)
    unnamed = written(tmp_path / "unnamed.json", {"apiVersion": "v1", "kind": "Pod"})
    with pytest.raises(InputError, match=r"an object without metadata\.name"):
        run("pods-outside-pool", "-f", unnamed)


def test_objects_of_an_unknown_cluster_would_be_in_no_answer(tmp_path: Path) -> None:
    member = written(tmp_path / "member.json", deployment("web", customer="alpenbank"))
    with pytest.raises(UsageError, match=r"--member eu-wset-1: .* no such cluster"):
        run(*IN_EU, "--arg", "customer=alpenbank", "--member", f"eu-wset-1={member}")


def test_no_deployment_has_a_query() -> None:
    for settings in (Settings(), Settings(placement=True)):
        modules = PolicySet.load(settings).modules
        names = ("visibility.", "lib.applications.", "lib.what_if.")
        assert not [key for key in modules if key.startswith(names)]


def test_each_query_describes_itself_and_answers_with_its_columns() -> None:
    known = queries.known(queries.policies(Settings()))
    assert len(known) == 4
    for query in known:
        assert query.columns
        assert {each.type for each in query.arguments} <= {"string", "number"}

"""Nothing crosses a border unplaced: what runs pods is decided on, and all else is where the
workloads of its namespace are, as far as its customer may be there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from place_command import run

SOURCE = "--source=https://git.example.com/a.git//deploy"
DATA: dict[str, Any] = {
    "placement": {
        "clusters": {
            "north": {"jurisdiction": "eu", "location": "on-prem"},
            "south": {"jurisdiction": "eu", "location": "on-prem"},
            "west": {"jurisdiction": "us", "location": "on-prem"},
        },
        "customers": {"acme": {"jurisdictions": ["eu", "us"]}, "euro": {"jurisdictions": ["eu"]}},
    }
}
POD = {"containers": [{"name": "c", "image": "x"}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": POD}


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "data.yaml"
    file.write_text(json.dumps(DATA))
    return file


def placed(*objects: dict[str, Any]) -> dict[str, list[str]]:
    """The clusters of each object, by its kind and name; its errors, if it has any."""
    placements = json.loads(run(*objects, options=("-o", "json")).stdout)
    return {
        f"{each['kind']} {each['name']}": list(each["clusters"])
        or [text for texts in each["errors"].values() for text in texts]
        for each in placements
    }


def manifest(kind: str, name: str, api_version: str = "v1", **parts: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": parts.pop("namespace", "bank"),
        "annotations": parts.pop("says", {}),
    }
    if metadata["namespace"] is None:
        del metadata["namespace"]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def bank(customer: str | None = "euro", name: str = "bank") -> dict[str, Any]:
    labels = {"customer": customer} if customer else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def deployment(*clusters: str, name: str = "web", **parts: Any) -> dict[str, Any]:
    says = {"replica-set-preferences": json.dumps(clusters), **parts.pop("says", {})}
    spec = {"replicas": 2, "template": TEMPLATE}
    return manifest("Deployment", name, "apps/v1", says=says, spec=spec, **parts)


ACME = {"customer": "acme"}
NORTH = {"replica-set-preferences": '["north"]'}
WITH_PODS: list[dict[str, Any]] = [
    manifest("Pod", "debug", says=NORTH, spec=POD),
    manifest("ReplicationController", "old", says=NORTH, spec={"template": TEMPLATE}),
    manifest("ReplicaSet", "rs", "apps/v1", says=NORTH, spec={"template": TEMPLATE}),
    manifest("DaemonSet", "agent", "apps/v1", says=NORTH, spec={"template": TEMPLATE}),
    manifest(
        "CronJob",
        "invoices",
        "batch/v1",
        says=NORTH,
        spec={"schedule": "0 2 * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}},
    ),
    manifest("Rollout", "r", "argoproj.io/v1alpha1", says=NORTH, spec={"template": TEMPLATE}),
    manifest(
        "JobSet",
        "s",
        "jobset.x-k8s.io/v1alpha2",
        says=NORTH,
        spec={"replicatedJobs": [{"template": {"spec": {"template": TEMPLATE}}}]},
    ),
]
WITHOUT_PODS = [
    *(manifest(kind, "x") for kind in ("Secret", "ConfigMap", "Service", "ServiceAccount")),
    manifest("PersistentVolumeClaim", "x"),
    manifest("Ingress", "x", "networking.k8s.io/v1"),
    manifest("Cluster", "x", "postgresql.cnpg.io/v1", spec={"instances": 3}),
]


def kinds_by_cluster(text: str, output: str) -> dict[str, set[str]]:
    """The kinds of the objects that each cluster gets by what was printed."""
    sent: dict[str, set[str]] = {}
    for cluster, kind in _sent(text, output):
        sent.setdefault(cluster, set()).add(kind)
    return sent


def _sent(text: str, output: str) -> Iterator[tuple[str, str]]:
    for each in yaml.safe_load_all(text):
        if output == "karmada" and each["kind"].endswith("PropagationPolicy"):
            (selector,) = each["spec"]["resourceSelectors"]
            for cluster in each["spec"]["placement"]["clusterAffinity"]["clusterNames"]:
                yield cluster, selector["kind"]
        elif output == "argocd":
            for element in each["spec"]["generators"][0]["list"]["elements"]:
                for part in element["objects"]:
                    yield element["cluster"], json.loads(part["target"])["kind"]


@pytest.mark.parametrize("output", ["karmada", "argocd"])
def test_in_every_output_all_of_a_customer_is_where_it_may_be(output: str) -> None:
    """Though a workload of another customer is in both."""
    objects = [bank(), deployment("west", "north", says=ACME), *WITH_PODS, *WITHOUT_PODS]
    options = ("-o", output, *((SOURCE,) if output == "argocd" else ()))
    result = run(*objects, options=options)
    assert result.return_value == 0, result.stderr
    sent = kinds_by_cluster(result.stdout, output)
    assert sent.pop("west") - {"Namespace"} == {"Deployment"}
    expected = {each["kind"] for each in objects[1:]}
    assert {name: kinds - {"Namespace"} for name, kinds in sent.items()} == {"north": expected}
    everything = placed(*objects)
    assert everything.pop("Deployment web") == ["north", "west"]
    assert {tuple(clusters) for clusters in everything.values()} == {("north",)}
    table = run(*objects).stdout
    assert "Secret bank/x                 north     not west: its jurisdiction is us" in table


def test_a_workload_of_another_customer_takes_nothing_along() -> None:
    policies = {
        policy["metadata"]["name"]: policy["spec"].get("propagateDeps")
        for policy in yaml.safe_load_all(
            run(
                bank(),
                deployment("west", says=ACME),
                deployment("north", name="own"),
                options=("-o", "karmada"),
            ).stdout
        )
    }
    assert policies == {"web-deployment": False, "own-deployment": True}


def test_what_pods_use_follows_them_though_another_workload_cannot_be_placed() -> None:
    objects = (bank(), deployment("north"), deployment("west", name="b"), manifest("Secret", "s"))
    result = run(*objects, options=("-o", "karmada"))
    assert "it belongs to Deployment bank/b, which cannot be placed" in result.stderr
    (policy,) = yaml.safe_load_all(result.stdout)
    assert policy["spec"]["propagateDeps"] is True


def test_what_runs_pods_and_asks_for_nothing_is_in_one_cluster_where_it_may_be() -> None:
    silent = [{**each, "metadata": {**each["metadata"], "annotations": {}}} for each in WITH_PODS]
    everything = placed(bank(), *silent)
    daemon_set = everything.pop("DaemonSet agent")
    divided = [everything.pop("ReplicationController old"), everything.pop("ReplicaSet rs")]
    assert [daemon_set, *divided] == [["north", "south"]] * 3
    assert {tuple(clusters) for clusters in everything.values()} == {("north",)}


def test_a_namespace_without_workloads_follows_those_of_its_customer_or_may_be_anywhere() -> None:
    secret = manifest("Secret", "keys", namespace="vault")
    web = deployment("north")
    assert placed(bank(), bank(name="vault"), web, secret)["Secret keys"] == ["north"]
    assert placed(bank("acme"), bank(name="vault"), web, secret)["Secret keys"] == [
        "north",
        "south",
    ]


def test_what_asks_for_clusters_is_decided_by_itself() -> None:
    asking = manifest("ConfigMap", "a", says={"replica-set-preferences": '["south"]'})
    abroad = manifest("ConfigMap", "b", says={"replica-set-preferences": '["west"]'})
    everything = placed(bank(), deployment("north"), asking, abroad)
    assert everything["ConfigMap a"] == ["south"]
    result = run(bank(), deployment("north"), abroad)
    assert result.return_value == 1
    assert "error: ConfigMap bank/b: invalid cluster(s): west" in result.stdout


CANNOT = [
    (
        [bank(None), deployment("north", says=ACME), deployment("west", name="b", says=ACME)],
        manifest("Secret", "s", says={"customer": "nobody"}),
        'customer "nobody" is not known',
    ),
    (
        [
            bank(None),
            deployment("north", name="a", says={"customer": "euro"}),
            deployment("west", says=ACME),
        ],
        manifest("Secret", "s"),
        "whose workloads are of several: in west, not all of them may be",
    ),
    ([deployment("north", says=ACME)], manifest("Secret", "s", namespace="other"), "no customer"),
    (
        [bank(), deployment("west", says=ACME)],
        manifest("Secret", "s"),
        'west: its jurisdiction is us, and customer "euro" allows eu',
    ),
    (
        [deployment("north", says=ACME)],
        manifest("Issuer", "s", "example.com/v1", namespace=None),
        "add its CustomResourceDefinition, or metadata.namespace",
    ),
    (
        [bank(), deployment("west")],
        manifest("Secret", "s"),
        "it belongs to Deployment bank/web, which cannot be placed",
    ),
]


@pytest.mark.parametrize(("others", "undecided", "words"), CANNOT)
def test_what_cannot_be_decided_fails_and_is_named(
    others: list[dict[str, Any]], undecided: dict[str, Any], words: str
) -> None:
    every: list[tuple[str, ...]] = [(), ("-o", "json"), ("-o", "karmada"), ("-o", "argocd", SOURCE)]
    for options in every:
        result = run(*others, undecided, options=options)
        assert result.return_value == 1
        printed = result.stdout + result.stderr
        assert undecided["kind"] in printed
        assert words in printed.replace('\\"', '"'), printed
        if options[1:2] in (("karmada",), ("argocd",)):
            sent = kinds_by_cluster(result.stdout, options[1])
            assert not any(undecided["kind"] in kinds for kinds in sent.values())


def test_a_shared_namespace_with_one_border_needs_no_word() -> None:
    shared = [bank(None), deployment("north", says=ACME), manifest("Secret", "s")]
    also = deployment("south", name="b", says={"customer": "euro"})
    assert placed(*shared, also)["Secret s"] == ["north", "south"]


def definition(kind: str, scope: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"kind": kind, "plural": f"{kind.lower()}s"},
            "versions": [{"name": "v1"}],
        },
    }


def test_objects_of_no_namespace_are_where_anything_is() -> None:
    objects = [
        bank("acme"),
        definition("Issuer", "Cluster"),
        definition("Cache", "Namespaced"),
        manifest("Issuer", "internal", "example.com/v1", namespace=None),
        manifest("Cache", "c1", "example.com/v1", namespace=None),
        manifest("ClusterRole", "reader", "rbac.authorization.k8s.io/v1", namespace=None),
        manifest("PersistentVolume", "disk", namespace=None, spec={"claimRef": {}}),
        deployment("west"),
    ]
    objects[4]["metadata"]["namespace"] = "bank"
    everything = placed(*objects)
    assert {tuple(clusters) for clusters in everything.values()} == {("west",)}
    titles = [
        each["namespace"] for each in json.loads(run(*objects, options=("-o", "json")).stdout)
    ]
    assert titles == [None, None, None, "bank", None, None, "bank"]
    euro = [bank(name="other"), deployment("north", namespace="other")]
    both = placed(*objects, *euro)
    assert both["CustomResourceDefinition issuers.example.com"] == ["north", "west"]
    assert "not all of them may be" in both["Issuer internal"][0]
    claimed = manifest(
        "PersistentVolume", "d", namespace=None, spec={"claimRef": {"namespace": "other"}}
    )
    assert placed(*objects, *euro, claimed)["PersistentVolume d"] == ["north"]


def test_what_a_controller_makes_is_left_out_and_named_if_nobody_here_makes_it() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    made = manifest("ReplicaSet", "web-1", "apps/v1", spec={"template": TEMPLATE})
    made["metadata"]["ownerReferences"] = [owner]
    alone = run(bank(), deployment("north", name="other"), made)
    assert "note: ReplicaSet bank/web-1 is left out: Deployment web, which makes it" in alone.stderr
    assert "ReplicaSet" not in alone.stdout
    together = run(bank(), deployment("north"), made, options=("-o", "annotations"))
    assert (together.stderr, "ReplicaSet" in together.stdout) == ("", False)


def test_what_nobody_stores_is_no_object() -> None:
    kustomization = manifest("Kustomization", "k", "kustomize.config.k8s.io/v1beta1")
    assert placed(bank(), deployment("north"), kustomization) == {"Deployment web": ["north"]}


def test_fields_of_a_live_object_are_left_out_of_what_is_applied_again() -> None:
    job = manifest(
        "Job",
        "once",
        "batch/v1",
        spec={
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
            "template": {"metadata": {"labels": {"controller-uid": "u", "a": "b"}}, "spec": POD},
        },
        status={"active": 1},
    )
    job["metadata"] |= {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01"}
    _, printed = yaml.safe_load_all(run(bank(), job, options=("-o", "annotations")).stdout)
    assert set(printed) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(printed["metadata"]) == {"annotations", "name", "namespace"}
    assert set(printed["spec"]) == {"template"}
    assert printed["spec"]["template"]["metadata"] == {"labels": {"a": "b"}}

"""What looks like a wish about clusters and is not read is named, with what was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fairlead.cli.placement import place, what_if
from fairlead.common import paths
from fairlead.common.yaml_files import Document
from fairlead.placement import wishes
from fairlead.placement.placements import ANNOTATION

SELECTOR = wishes.SELECTOR


def warnings(**metadata: Any) -> list[str]:
    template = metadata.pop("template", {})
    value = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", **metadata},
        "spec": {"template": {"metadata": template}},
    }
    return list(wishes.unread([Document(Path("app.yaml"), value, None)]))


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("min-cluster", "min-clusters"),
        ("minClusters", "min-clusters"),
        ("min_clusters", "min-clusters"),
        ("max-replicas-per-clusters", "max-replicas-per-cluster"),
        ("replica-set-preference", "replica-set-preferences"),
        ("replicaSetPreferences", "replica-set-preferences"),
        ("deployment-preferences", "replica-set-preferences"),
        ("clusters", "replica-set-preferences"),
        ("Customer", "customer"),
        ("customr", "customer"),
        ("costumer", "customer"),
        ("critcality", "criticality"),
        ("traffics", "traffic"),
        ("move-volume", "move-volumes"),
        ("cluster-selector", SELECTOR),
        ("federation.kubernetes.io/cluster-selector", SELECTOR),
        ("federation.kubernetes.io/deployment-preferences", "replica-set-preferences"),
        ("federation.kubernetes.io/job-preferences", "replica-set-preferences"),
        ("federation.alpha.kubernetes.io/min-clusters", "min-clusters"),
        ("fairlead.dev/min-clusters", "min-clusters"),
        ("fairlead.dev/customer", "customer"),
        ("example.com/replica-set-preferences", "replica-set-preferences"),
    ],
)
def test_what_was_meant(key: str, meant: str) -> None:
    (warning,) = warnings(annotations={key: "x"})
    assert warning == (
        f"app.yaml: Deployment default/web: metadata.annotations has {key!r}, which is not read: "
        f"did you mean {meant}?"
    )


def test_a_label_that_has_to_be_an_annotation() -> None:
    (warning,) = warnings(labels={SELECTOR: "x"})
    assert warning.endswith("which is not read: write it as an annotation")


def test_a_key_of_federation_that_nothing_stands_for() -> None:
    (warning,) = warnings(annotations={"federation.kubernetes.io/ingress-address": "x"})
    assert warning.endswith("placement reads no other keys of Federation v1")


def test_the_last_decision_is_no_wish_but_one_of_federation_is() -> None:
    assert warnings(annotations={ANNOTATION: '{"clusters":{"a":{"weight":1}}}'}) == []
    text = '{"rebalance": true, "clusters": {"*": {"minReplicas": 1}}}'
    (warning,) = warnings(annotations={ANNOTATION: text})
    assert warning.endswith("did you mean replica-set-preferences?")


@pytest.mark.parametrize(
    "key",
    [
        *sorted(wishes.KEYS),
        *("app", "app.kubernetes.io/name", "team", "owner", "cluster", "example.com/customer"),
        *("min-ready-seconds", "node-selector", "example.com/traffic", "critical-pod"),
        *("prometheus.io/scrape", "kubectl.kubernetes.io/last-applied-configuration"),
    ],
)
def test_what_is_read_and_what_others_read_needs_no_word(key: str) -> None:
    assert warnings(annotations={key: "x"}) == []


def test_a_wish_in_the_template_of_pods_is_in_the_wrong_place() -> None:
    (warning,) = warnings(template={"annotations": {"min-clusters": "2"}})
    assert warning == (
        "app.yaml: Deployment default/web: spec.template.metadata.annotations has 'min-clusters', "
        "which is not read: write it to metadata.annotations"
    )
    both = {"min-clusters": "2"}
    assert warnings(annotations=both, template={"annotations": both}) == []
    assert warnings(template={"labels": {"customer": "acme", "criticality": "low"}}) == []


def test_odd_metadata_have_no_wishes() -> None:
    for odd in ("x", ["x"], None):
        assert warnings(annotations=odd, template=odd) == []


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ({"apiVersion": "v1", "kind": "Namespace"}, "Namespace a"),
        ({"apiVersion": "v1", "kind": "Service"}, "Service default/a"),
    ],
)
def test_an_object_of_the_cluster_has_no_namespace(value: dict[str, Any], title: str) -> None:
    metadata = {"name": "a", "labels": {"costumer": "acme"}}
    (warning,) = wishes.unread([Document(Path("a.yaml"), {**value, "metadata": metadata}, None)])
    assert warning.startswith(f"a.yaml: {title}: metadata.labels has 'costumer'")


def test_what_a_controller_makes_has_the_wishes_of_its_owner() -> None:
    """A Deployment gives its annotations to its ReplicaSets."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    assert warnings(annotations={"min-cluster": "2"}, ownerReferences=[owner]) == []


def test_place_and_what_if_warn_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  annotations:\n"
        "    customer: stadtwerke\n    min-cluster: '2'\n"
    )
    data = f"--data={paths.root() / 'testdata' / 'placement' / 'data.yaml'}"
    for command, *options in ((place.command,), (what_if.command, "--price=eu-frankfurt=1")):
        result = CliRunner().invoke(
            command, [data, "-f", "app.yaml", *options], standalone_mode=False
        )
        assert (result.exception, result.return_value) == (None, 0)
        assert [line for line in result.stderr.splitlines() if "warning: " in line] == [
            "warning: app.yaml:7: Deployment default/web: metadata.annotations has 'min-cluster', "
            "which is not read: did you mean min-clusters?"
        ]

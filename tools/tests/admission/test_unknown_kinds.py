"""Kinds are not guessed: API servers never exempt an object of the cluster by a selector for
namespaces, and a kind that nobody describes is said to be unknown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlead.admission import asked, gate, request_files
from fairlead.common.progress import Progress
from fairlead.kube.discovery import Kind
from fairlead.policy import fairlead_yaml, parameter_rules
from fairlead.policy.policy_set import PolicySet

SETTINGS = """\
intents:
  required-labels:
    namespaces: {matchLabels: {stage: production}}
    parameters:
      labels: [{key: team}]
      kinds:
        - flowcontrol.apiserver.k8s.io/v1/FlowSchema
        - resource.k8s.io/v1/DeviceClass
        - v1/PersistentVolume
        - v1/ConfigMap
      custom_resources:
        - {group: example.com, version: v1, kind: Ship, resource: ships}
"""
SHIP = {"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "one"}}
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Ship, plural: ships}
"""
UNKNOWN = (
    "Ship of example.com is a kind that is not known, and counts as an object of the cluster: name "
    "the file with its CustomResourceDefinition, too, or add --live"
)


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> PolicySet:
    file = tmp_path_factory.mktemp("settings") / "fairlead.yaml"
    file.write_text(SETTINGS)
    settings, files = fairlead_yaml.read(file, parameter_rules.rules(Progress()))
    return PolicySet.load(settings, files=files)


def judged(
    policies: PolicySet, folder: Path, *texts: str, kinds: tuple[Kind, ...] = ()
) -> Sequence[gate.Verdict]:
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text)
    report = gate.check(
        request_files.read([folder], namespace_labels={}, kinds=kinds),
        policies=policies,
        webhooks=asked.rendered(policies),
        progress=Progress(),
    )
    return report.verdicts


def verdicts(
    policies: PolicySet, folder: Path, *texts: str, kinds: tuple[Kind, ...] = ()
) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (each.subject.kind, each.outcome, each.notes)
        for each in judged(policies, folder, *texts, kinds=kinds)
    ]


@pytest.mark.parametrize(
    "version", ["flowcontrol.apiserver.k8s.io/v1/FlowSchema", "resource.k8s.io/v1/DeviceClass"]
)
def test_an_object_of_the_cluster_is_never_exempt(
    policies: PolicySet, tmp_path: Path, version: str
) -> None:
    api_version, _, kind = version.rpartition("/")
    text = json.dumps({"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}})
    assert verdicts(policies, tmp_path, text) == [(kind, "refused", ())]


def test_an_object_of_a_namespace_that_is_not_selected_is_exempt(
    policies: PolicySet, tmp_path: Path
) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}})
    ((_, outcome, _),) = verdicts(policies, tmp_path, text)
    assert outcome == "admitted"


def test_an_unknown_kind_is_said_to_be_unknown_and_counts_as_one_of_the_cluster(
    policies: PolicySet, tmp_path: Path
) -> None:
    assert verdicts(policies, tmp_path, json.dumps(SHIP)) == [("Ship", "refused", (UNKNOWN,))]


def test_a_definition_among_the_files_says_that_a_kind_has_namespaces(
    policies: PolicySet, tmp_path: Path
) -> None:
    found = verdicts(policies, tmp_path, json.dumps(SHIP), DEFINITION)
    assert [(kind, outcome) for kind, outcome, _ in found] == [
        ("Ship", "admitted"),
        ("CustomResourceDefinition", "admitted"),
    ]
    assert UNKNOWN not in found[0][2]


def test_the_kinds_of_a_cluster_are_known(policies: PolicySet, tmp_path: Path) -> None:
    kind = Kind("example.com/v1", "Ship", "ships", True, ())
    ((_, outcome, notes),) = verdicts(policies, tmp_path, json.dumps(SHIP), kinds=(kind,))
    assert (outcome, UNKNOWN in notes) == ("admitted", False)


@pytest.mark.parametrize(
    ("version", "kind", "outcome"),
    [
        ("apps/v1", "Deploymnet", "refused"),
        ("apps/v1", "deployment", "refused"),
        ("batch/v1", "CronJobs", "refused"),
        ("v1", "Config", "admitted"),
        ("apps.example.com/v1", "Deploymnet", "admitted"),
    ],
)
def test_a_misspelt_kind_of_kubernetes_itself_is_refused(
    policies: PolicySet, tmp_path: Path, version: str, kind: str, outcome: str
) -> None:
    text = json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "one"}})
    ((_, found, _),) = verdicts(policies, tmp_path, text)
    assert found == outcome


def test_a_misspelt_kind_that_the_cluster_serves_is_known(
    policies: PolicySet, tmp_path: Path
) -> None:
    kind = Kind("apps/v1", "Deploymnet", "deploymnets", True, ())
    text = json.dumps({"apiVersion": "apps/v1", "kind": "Deploymnet", "metadata": {"name": "one"}})
    ((_, outcome, _),) = verdicts(policies, tmp_path, text, kinds=(kind,))
    assert outcome == "admitted"


@pytest.mark.parametrize("api_version", ["v1", "batch/v1"])
def test_a_kind_of_another_group_of_kubernetes_is_refused_with_its_group(
    policies: PolicySet, tmp_path: Path, api_version: str
) -> None:
    text = json.dumps({"apiVersion": api_version, "kind": "Deployment", "metadata": {"name": "a"}})
    (verdict,) = judged(policies, tmp_path, text)
    assert verdict.outcome == "refused"
    assert f"{api_version} has no kind 'Deployment': it is one of the group apps" in str(verdict)


def test_nobody_is_told_to_write_a_definition_of_a_kind_that_none_can_define(
    policies: PolicySet, tmp_path: Path
) -> None:
    text = json.dumps({"apiVersion": "apps/v1", "kind": "HelmRelease", "metadata": {"name": "a"}})
    ((_, _, (note, *_)),) = verdicts(policies, tmp_path, text)
    assert "CustomResourceDefinition" not in note
    assert "Kubernetes itself has to have it" in note

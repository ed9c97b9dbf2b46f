"""The manifests for Metacontroller are those that its requests were recorded with, made safe."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from fairlead.access.bindings import KINDS
from fairlead.common import paths
from fairlead.settings.services import SCOPES

FOLDER = paths.root() / "integration" / "deploy" / "metacontroller"
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all((FOLDER / "access.yaml").read_text()))
CONTROLLERS = {
    each["metadata"]["name"]: each["spec"]
    for each in OBJECTS
    if each["kind"] == "CompositeController"
}
RECORDED = [
    json.loads(line)["request"]["controller"]["spec"]
    for line in (paths.root() / "testdata" / "access" / "metacontroller.jsonl").open()
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.parent))
def test_each_kind_has_a_controller(kind: Any) -> None:
    spec = CONTROLLERS[kind.parents.name]
    assert spec["parentResource"] == {
        "apiVersion": "access.fairlead.dev/v1",
        "resource": kind.parents.name,
    }
    (child,) = spec["childResources"]
    assert child["resource"] == kind.children.name
    assert child["updateStrategy"] == {"method": "Recreate"}
    assert spec["generateSelector"] is True
    assert spec["resyncPeriodSeconds"] == 5
    assert list(spec["hooks"]) == ["sync"]
    webhook = spec["hooks"]["sync"]["webhook"]
    assert webhook["responseUnMarshallMode"] == "strict"
    (request,) = SCOPES["access"].requests
    assert webhook["url"] == f"https://opa.fairlead.svc{request[1]}"


def test_what_was_recorded_is_what_is_deployed() -> None:
    spec = CONTROLLERS["transientrolebindings"]
    recorded = [each for each in RECORDED if each["parentResource"] == spec["parentResource"]]
    same = [
        each
        for each in recorded
        if each.get("generateSelector")
        and len(each["childResources"]) == 1
        and each["childResources"][0]["resource"] == "rolebindings"
        and each["childResources"][0]["updateStrategy"]["method"] == "Recreate"
        and each["hooks"]["sync"]["version"] == spec["hooks"]["sync"]["version"]
    ]
    assert same


def test_it_gets_no_right_that_it_does_not_need() -> None:
    rules = [rule for each in OBJECTS if each["kind"] == "ClusterRole" for rule in each["rules"]]
    for rule in rules:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
    (binds,) = [rule for rule in rules if "bind" in rule["verbs"]]
    assert binds["resourceNames"]
    assert not [rule for rule in rules if {"escalate", "impersonate"} & set(rule["verbs"])]


def test_its_flags_are_those_that_end_access_on_time() -> None:
    (deployment,) = [each for each in OBJECTS if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [
        *("--apply-strategy=server-side-apply", "--client-go-qps=100", "--client-go-burst=200"),
        "--workers=20",
    ]

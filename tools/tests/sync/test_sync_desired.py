"""The desired state of OPA, computed from events alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.deployment.names import REPLICA_STATUS, STATUS
from fairlead.kube.live_namespaces import LiveNamespace
from fairlead.kube.resources import Resource
from fairlead.policy import bundles
from fairlead.sync.desired import Desired, Snapshot, Source

POLICIES = Source("policies", "fairlead")
DATA = Source("data", "fairlead")
NAMESPACES = Source("namespaces")
DATA_LABEL = ("openpolicyagent.org/data", "opa")


@pytest.fixture
def desired() -> Desired:
    return Desired([POLICIES, DATA, NAMESPACES], namespace_labels=["agentpool", "team"])


def config_map(name: str, data: dict[str, str] | None = None, **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "fairlead", "resourceVersion": "1"} | rest.pop(
        "metadata", {}
    )
    return {"metadata": metadata, "data": data, **rest}


def namespace(name: str, labels: dict[str, str] | None, version: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels, "resourceVersion": str(version), "uid": "u"},
        "spec": {"finalizers": ["x"]},
    }


def live(
    labels: dict[str, str], version: str, annotations: dict[str, str] | None = None
) -> LiveNamespace:
    return LiveNamespace(labels, annotations or {}, version)


def known(desired: Desired) -> dict[str, dict[str, str]]:
    """The namespaces with their labels, each in its own form."""
    metadata = thin(desired.take())
    assert all(value["name"] == name for name, value in metadata.items())
    return {name: value["labels"] for name, value in metadata.items()}


def thin(snapshot: Snapshot) -> dict[str, Any]:
    """The metadata of each namespace as OPA gets it; it gets nothing else."""
    namespaces = {
        name: json.loads(text) for (_, name), text in (snapshot.stores["namespaces"] or {}).items()
    }
    assert all(value.keys() == {"metadata"} for value in namespaces.values())
    return {name: value["metadata"] for name, value in namespaces.items()}


def test_each_key_of_a_labelled_config_map_is_a_policy_or_a_document(desired: Desired) -> None:
    desired.replace(POLICIES, [config_map("rules", {"a.rego": "package a", "b.rego": "package b"})])
    desired.replace(DATA, [config_map("facts", {"x.json": "[1]"})])
    assert desired.take().texts == {
        ("policy", "fairlead/rules/a.rego"): "package a",
        ("policy", "fairlead/rules/b.rego"): "package b",
        ("document", "fairlead/facts/x.json"): "[1]",
    }


def test_a_namespace_is_only_its_name_and_the_labels_asked_for_or_that_it_lacks_them(
    desired: Desired,
) -> None:
    listed = [namespace("a", {"agentpool": "p1", "team": "t", "other": "x"}), namespace("b", None)]
    desired.replace(NAMESPACES, [*listed, namespace("c", {"agentpool": ""})])
    assert thin(desired.take()) == {
        "a": {"name": "a", "labels": {"agentpool": "p1", "team": "t"}},
        "b": {"name": "b", "labels": {}, "absentLabels": ["agentpool", "team"]},
        "c": {"name": "c", "labels": {"agentpool": ""}, "absentLabels": ["team"]},
    }


def pools(**of: str) -> dict[str, dict[str, str]]:
    return {name: {"agentpool": pool} for name, pool in of.items()}


def test_no_event_takes_a_namespace_back_behind_what_was_looked_up(desired: Desired) -> None:
    desired.replace(NAMESPACES, [])
    assert desired.looked_up("a", live({"agentpool": "new", "x": "y"}, "7"))
    desired.apply(NAMESPACES, False, namespace("a", {"agentpool": "old"}, 5))
    desired.apply(NAMESPACES, True, namespace("a", {"agentpool": "old"}, 6))
    assert known(desired) == {}
    desired.apply(NAMESPACES, False, namespace("b", {"agentpool": "p"}, 6))
    desired.apply(NAMESPACES, False, namespace("a", {"agentpool": "new"}, 7))
    assert known(desired) == pools(a="new", b="p")
    desired.apply(NAMESPACES, True, namespace("a", {"agentpool": "new"}, 8))
    assert known(desired) == pools(b="p")


def test_annotations_with_the_key_of_a_replicated_label_are_replicated(desired: Desired) -> None:
    noted = namespace("a", {"agentpool": "p"})
    noted["metadata"]["annotations"] = {"team": "blue", "note": "x" * 1000}
    desired.replace(NAMESPACES, [noted])
    assert thin(desired.take())["a"]["annotations"] == {"team": "blue"}
    labels = {"agentpool": "p"}
    assert not desired.looked_up("a", live(labels, "2", {"team": "red"}))
    assert desired.looked_up("a", live(labels, "2", {"team": "blue", "note": "y"}))


def test_a_list_that_was_read_before_a_look_up_does_not_take_it_back_either(
    desired: Desired,
) -> None:
    desired.replace(NAMESPACES, [])
    desired.looked_up("a", live({"agentpool": "new"}, "7"))
    desired.replace(
        NAMESPACES, [namespace("a", {"agentpool": "old"}, 5), namespace("b", {"agentpool": "p"}, 4)]
    )
    assert known(desired) == pools(b="p")


def test_a_state_that_opa_has_not_got_yet_is_not_overtaken(desired: Desired) -> None:
    """Otherwise OPA would get the state of the lookup first, and then an older one."""
    desired.replace(NAMESPACES, [namespace("a", {"agentpool": "first"}, 1)])
    assert not desired.looked_up("a", live({"agentpool": "second"}, "2"))
    assert desired.looked_up("a", live({"agentpool": "first", "other": "x"}, "1"))
    first = desired.take()
    assert not desired.looked_up("a", live({"agentpool": "second"}, "2"))
    desired.loaded(first)
    assert desired.looked_up("a", live({"agentpool": "second"}, "2"))
    desired.apply(NAMESPACES, False, namespace("a", {"agentpool": "third"}, 3))
    assert not desired.looked_up("a", live({"agentpool": "fourth"}, "4"))
    assert desired.looked_up("a", live({"agentpool": "third"}, "3"))
    assert desired.looked_up("b", live({"agentpool": "new"}, "5"))


def test_two_that_look_up_at_once_leave_the_later_of_both(desired: Desired) -> None:
    desired.replace(NAMESPACES, [])
    assert desired.looked_up("a", live({"agentpool": "later"}, "8"))
    assert desired.looked_up("a", live({"agentpool": "earlier"}, "7"))
    desired.apply(NAMESPACES, False, namespace("a", {"agentpool": "earlier"}, 7))
    assert known(desired) == {}


def test_a_version_that_is_no_number_holds_nothing_up(desired: Desired) -> None:
    desired.replace(NAMESPACES, [])
    desired.looked_up("a", live({"agentpool": "new"}, "v7"))
    desired.looked_up("b", live({"agentpool": "new"}, "7"))
    event = namespace("b", {"agentpool": "p"})
    event["metadata"]["resourceVersion"] = "v1"
    desired.apply(NAMESPACES, False, event)
    assert known(desired) == pools(b="p")


def test_it_is_complete_only_once_every_source_of_config_maps_is_listed(desired: Desired) -> None:
    assert not desired.take().complete
    desired.replace(POLICIES, [])
    assert not desired.take().complete
    desired.replace(DATA, [])
    assert desired.take().complete
    assert desired.take().unknown == ["namespaces"]
    desired.replace(NAMESPACES, [])
    assert desired.take().unknown == []
    assert known(desired) == {}


def test_events_add_change_and_remove(desired: Desired) -> None:
    desired.replace(POLICIES, [])
    desired.replace(NAMESPACES, [])
    desired.apply(POLICIES, False, config_map("rules", {"a.rego": "package a"}))
    desired.apply(NAMESPACES, False, namespace("a", {"agentpool": "p1"}))
    assert desired.take().texts == {("policy", "fairlead/rules/a.rego"): "package a"}
    desired.apply(POLICIES, False, config_map("rules", {"b.rego": "package b"}))
    desired.apply(NAMESPACES, False, namespace("a", {"agentpool": "p2"}))
    assert desired.take().texts == {("policy", "fairlead/rules/b.rego"): "package b"}
    assert known(desired) == {"a": {"agentpool": "p2"}}
    desired.apply(POLICIES, True, config_map("rules", {"b.rego": "package b"}))
    desired.apply(NAMESPACES, True, namespace("a", {"agentpool": "p2"}))
    assert desired.take().texts == {}
    assert known(desired) == {}


def test_a_list_replaces_all_that_was_known(desired: Desired) -> None:
    desired.replace(NAMESPACES, [namespace("a", {}), namespace("b", {})])
    desired.replace(NAMESPACES, [namespace("b", {}), namespace("c", {})])
    assert known(desired) == {"b": {}, "c": {}}


def test_a_list_that_breaks_off_changes_nothing(desired: Desired) -> None:
    def broken() -> Any:
        yield namespace("b", {})
        raise ConnectionError

    desired.replace(NAMESPACES, [namespace("a", {})])
    with pytest.raises(ConnectionError):
        desired.replace(NAMESPACES, broken())
    assert known(desired) == {"a": {}}


def test_what_changes_is_told_once_and_the_rest_not(desired: Desired) -> None:
    desired.replace(POLICIES, [config_map("rules", {"a.rego": "package a"})])
    assert desired.changed.is_set()
    assert desired.changed_at() is not None
    desired.take()
    assert desired.changed_at() is None
    own = config_map(
        "rules",
        {"a.rego": "package a"},
        metadata={"resourceVersion": "2", "annotations": {STATUS: "x"}},
    )
    desired.apply(POLICIES, False, own)
    desired.replace(POLICIES, [own])
    assert not desired.changed.is_set(), (
        "our own annotation is not a change of what OPA should hold"
    )
    stored = desired.config_map(("fairlead", "rules"))
    assert stored is not None
    assert (stored.annotations, stored.resource_version) == ({STATUS: "x"}, "2")
    desired.apply(POLICIES, False, config_map("rules", {"a.rego": "package a2"}))
    assert desired.changed.is_set()


def test_with_both_labels_a_config_map_holds_data_as_for_kube_mgmt(desired: Desired) -> None:
    both = config_map("both", {"k": "1"}, metadata={"labels": dict([DATA_LABEL])})
    desired.replace(POLICIES, [both])
    desired.replace(DATA, [both])
    assert list(desired.take().texts) == [("document", "fairlead/both/k")]


@pytest.mark.parametrize(
    "text",
    [
        "package system.authz",
        "# c\n  package  system.authz # d",
        'package system["authz"]',
        "package system[`authz`]",
    ],
)
def test_a_policy_of_system_authz_is_refused_with_its_line(desired: Desired, text: str) -> None:
    desired.replace(
        POLICIES, [config_map("rules", {"a.rego": text, "b.rego": "package system.authzed"})]
    )
    taken = desired.take()
    assert list(taken.texts) == [("policy", "fairlead/rules/b.rego")]
    assert taken.broken == {("policy", "fairlead/rules/a.rego")}
    row = text.count("\n") + 1
    problem = taken.config_maps[0].problems["a.rego"]
    assert problem["errors"][0]["location"] == {
        "file": "fairlead/rules/a.rego",
        "row": row,
        "col": 1,
    }
    assert "system.authz" in problem["message"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n  b}', "fairlead/facts/k:2: is not JSON: "),
        ("", "fairlead/facts/k:1: is not JSON: "),
        ("[NaN]", "fairlead/facts/k: is not JSON: NaN is not a JSON value"),
        ("[" * 100_000, "fairlead/facts/k: is nested too deeply"),
        ("9" * 5000, "fairlead/facts/k: is not JSON: "),
    ],
)
def test_data_that_is_no_json_is_told_and_what_opa_has_is_kept(
    desired: Desired, text: str, message: str
) -> None:
    desired.replace(DATA, [config_map("facts", {"k": text, "good": "null"})])
    taken = desired.take()
    assert taken.texts == {("document", "fairlead/facts/good"): "null"}
    assert taken.broken == {("document", "fairlead/facts/k")}
    assert taken.config_maps[0].problems["k"]["message"].startswith(message)


def test_data_in_a_key_with_the_ending_of_yaml_have_to_be_json_too(desired: Desired) -> None:
    desired.replace(DATA, [config_map("facts", {"k.yaml": "a: 1", "k.yml": "{}", "k.txt": "-"})])
    problems = desired.take().config_maps[0].problems
    hint = " (data has to be JSON, whatever the key ends with)"
    assert {key: hint in problem["message"] for key, problem in problems.items()} == {
        "k.yaml": True,
        "k.txt": False,
    }


def test_what_is_no_text_is_told(desired: Desired) -> None:
    desired.replace(POLICIES, [config_map("rules", None, binaryData={"a.rego": "/w=="})])
    assert "is not UTF-8" in desired.take().config_maps[0].problems["a.rego"]["message"]


def test_documents_below_system_are_refused() -> None:
    everywhere = Source("data")
    desired = Desired([everywhere], namespace_labels=[])
    value = config_map("authz", {"token_digests": "[]"}, metadata={"namespace": "system"})
    desired.replace(everywhere, [value])
    taken = desired.take()
    assert taken.texts == {}
    assert "system" in taken.config_maps[0].problems["token_digests"]["message"]


def test_an_event_before_the_first_list_is_left_to_the_list(desired: Desired) -> None:
    desired.apply(NAMESPACES, False, namespace("a", {}))
    assert desired.take().stores == {"namespaces": None}


def test_objects_are_kept_by_namespace_and_name_and_without_what_only_servers_read() -> None:
    pods = Source("objects", resource=Resource("", "v1", "pods", True))
    desired = Desired([pods], namespace_labels=[])
    desired.replace(
        pods,
        [
            {
                "metadata": {"namespace": "shop", "name": "web", "managedFields": [{}]},
                "spec": {"x": 1},
            }
        ],
    )
    assert desired.take().stores == {
        "pods": {("shop", "web"): '{"metadata":{"name":"web","namespace":"shop"},"spec":{"x":1}}'}
    }


def test_a_tree_is_the_same_object_until_something_of_it_changes(desired: Desired) -> None:
    desired.replace(NAMESPACES, [namespace("a", {})])
    before = desired.take().stores["namespaces"]
    desired.replace(POLICIES, [])
    desired.apply(NAMESPACES, False, namespace("a", {"other": "x"}))
    assert desired.take().stores["namespaces"] is before
    desired.apply(NAMESPACES, False, namespace("a", {"team": "x"}))
    assert desired.take().stores["namespaces"] is not before


def test_a_config_map_tells_its_revision_and_every_replicas_status(desired: Desired) -> None:
    modules = {"b.rego": "package b", "a.rego": "package a # \u00e4"}
    annotations = {STATUS: "x", REPLICA_STATUS + "one": "y", "other": "z"}
    desired.replace(POLICIES, [config_map("rules", modules, metadata={"annotations": annotations})])
    (stored,) = desired.take().config_maps
    assert stored.fingerprint == bundles.revision(modules)
    assert stored.annotations == {STATUS: "x", REPLICA_STATUS + "one": "y"}
    desired.replace(POLICIES, [config_map("rules", modules, binaryData={"c": "/w=="})])
    assert desired.take().config_maps[0].fingerprint != stored.fingerprint

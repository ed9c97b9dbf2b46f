"""Objects that are replicated into OPA."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest
from sync_world import NAMESPACES, World, make_pod

from fairlead.opa.errors import DocumentRejected
from fairlead.sync import stores
from fairlead.sync.desired import Desired, Source


def test_replicated_objects_follow_the_cluster(world: World) -> None:
    web = {("shop", "web"): {"spec": {"x": 1.0}}, ("shop", "db"): {}, ("bank", "web"): {}}
    world.cluster(pods=web)
    world.settle()
    assert world.opa.document(["kubernetes", "pods"]) == {
        "shop": {
            "web": make_pod("shop", "web", {"spec": {"x": 1}}),
            "db": make_pod("shop", "db", {}),
        },
        "bank": {"web": make_pod("bank", "web", {})},
    }
    world.cluster(pods={("shop", "web"): {"spec": {"x": 2}}, ("new", "web"): {}})
    world.settle()
    assert world.opa.document(["kubernetes", "pods"]) == {
        "shop": {"web": make_pod("shop", "web", {"spec": {"x": 2}})},
        "new": {"web": make_pod("new", "web", {})},
    }
    assert b'fairlead_sync_objects{resource="pods"} 2.0' in generate_latest(world.metrics.registry)


def test_replicated_objects_that_someone_changes_in_opa_are_put_right(world: World) -> None:
    world.cluster(pods={("shop", "web"): {}, ("bank", "web"): {}})
    world.settle()
    right = world.opa.document(["kubernetes", "pods"])
    for path, value in (
        (["shop"], 5),
        (["bank", "web"], {}),
        (["stranger"], {}),
        ([], {"x": {"y": 1}}),
        ([], 5),
    ):
        world.opa.put_document(["kubernetes", "pods", *path], value)
        world.settle()
        assert world.opa.document(["kubernetes", "pods"]) == right
    world.opa.remove_document(["kubernetes", "pods"])
    world.settle()
    assert world.opa.document(["kubernetes", "pods"]) == right


def test_a_load_too_large_for_one_request_comes_in_pieces(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "PIECE", 1000)
    monkeypatch.setattr(stores.pieces, "__kwdefaults__", {"limit": 1000, "operations": 5})
    names = {f"n{number}": {"agentpool": "p"} for number in range(40)}
    pods = {(f"n{number % 3}", f"p{number}"): {"spec": "x" * 100} for number in range(40)}
    sent: list[int] = []
    patch = world.opa.patch_json

    def noted(path: list[str], text: str) -> None:
        sent.append(len(text))
        patch(path, text)

    monkeypatch.setattr(world.opa, "patch_json", noted)
    world.cluster({"map": {"a": "package a"}}, namespaces=names, pods=pods)
    world.settle()
    assert (world.opa.document(["kubernetes", "namespaces"]) or {}).keys() == names.keys()
    assert (
        sum(len(held) for held in (world.opa.document(["kubernetes", "pods"]) or {}).values()) == 40
    )
    assert len(sent) > 10
    assert max(sent) <= 1002
    assert world.reconciler.trouble is None


def test_objects_that_opa_does_not_take_are_told_and_hold_up_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: list[str], text: str) -> None:
        if path[-1] == "pods":
            raise DocumentRejected("pods", {"code": "c", "message": "request body too large"})
        put(path, text)

    put = world.opa.put_json
    monkeypatch.setattr(world.opa, "put_json", refuse)
    world.cluster({"map": {"a": "package a"}}, namespaces={"n": {}}, pods={("shop", "web"): {}})
    world.settle()
    assert "OPA rejected pods: pods: c: request body too large" in (world.reconciler.trouble or "")
    assert world.opa.document(["kubernetes", "namespaces", "n"])
    assert "fairlead/map/a" in world.server.own_policies()
    assert b"fairlead_sync_pending 1.0" in generate_latest(world.metrics.registry)
    monkeypatch.setattr(world.opa, "put_json", put)
    world.settle()
    assert world.reconciler.trouble is None


def test_rules_where_objects_are_replicated_are_refused_also_where_there_are_none_yet(
    world: World,
) -> None:
    texts = {
        "a": "package kubernetes.pods.shop\nweb := 1",
        "b": "package kubernetes\nnodes := 1",
        "c": "package kubernetes.admission\ndeny := 1",
    }
    world.cluster({"map": texts})
    world.settle()
    assert list(world.server.own_policies()) == ["fairlead/map/c"]
    assert [
        "data.kubernetes.pods" in world.messages()[0],
        "data.kubernetes.nodes" in world.messages()[1],
    ] == [True] * 2


def test_data_where_objects_are_replicated_are_refused(world: World) -> None:
    everything = Source("data")
    world.desired = Desired([everything, NAMESPACES], namespace_labels=[])
    world.sidecar()
    world.desired.replace(NAMESPACES, [])
    metadata = {"name": "namespaces", "namespace": "kubernetes", "resourceVersion": "1"}
    world.desired.replace(everything, [{"metadata": metadata, "data": {"x": "1"}}])
    world.settle()
    assert (
        "objects are replicated to kubernetes/namespaces"
        in world.problems["kubernetes", "namespaces"][0]["message"]
    )
    assert world.opa.document(["kubernetes", "namespaces"]) == {}

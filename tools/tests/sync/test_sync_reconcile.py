"""The reconciler, step by step against a real OPA."""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import Any

import opa_server
import pytest
import requests
from prometheus_client import generate_latest
from sync_world import (
    DATA,
    NAMESPACES,
    NODES,
    OWNER,
    PODS,
    POLICIES,
    SYSTEM,
    World,
    make_config_map,
)

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.opa.errors import OpaUnavailable
from fairlead.sync.refusals import MARKER


def test_opa_gets_policies_documents_and_thin_namespaces(world: World) -> None:
    world.cluster(
        {"map": {"a.rego": "package a"}},
        {"facts": {"x.json": '{"v": 1.50}'}},
        {"n": {"agentpool": "p", "o": "x"}},
    )
    world.settle()
    assert world.server.own_policies() == {"fairlead/map/a.rego": "package a"}
    assert world.opa.document(["fairlead"]) == {"facts": {"x.json": {"v": 1.5}}}
    namespace = {"metadata": {"name": "n", "labels": {"agentpool": "p"}}}
    assert world.opa.document(["kubernetes"]) == {
        "namespaces": {"n": namespace},
        "pods": {},
        "nodes": {},
    }
    assert world.problems == {OWNER: [], ("fairlead", "facts"): []}
    assert world.reconciler.trouble is None
    assert world.reconciler.lag() == 0


def test_it_is_not_settled_before_the_cluster_is_known(world: World) -> None:
    world.desired.replace(POLICIES, [])
    world.settle()
    assert world.reconciler.trouble
    assert world.opa.document(["kubernetes"]) is None


def test_policies_that_need_each_other_are_loaded_in_whatever_order(world: World) -> None:
    chain = {f"{n}.rego": f"package p{n}\nf(x) := data.p{n + 1}.f(x)" for n in range(4)} | {
        "4.rego": "package p4\nf(x) := x"
    }
    world.cluster({"map": chain})
    world.settle()
    assert len(world.server.own_policies()) == 5
    assert world.problems[OWNER] == []


def test_policies_are_loaded_and_removed_in_one_request_each(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[str]()
    send = world.opa.send

    def counted(method: str, path: str, *rest: Any, **options: Any) -> Any:
        if "policies" in path and method != "GET":
            sent.append(f"{method} {path}")
        return send(method, path, *rest, **options)

    monkeypatch.setattr(world.opa, "send", counted)
    world.cluster(
        {**SYSTEM, "map": {"a": "package a\nx := data.b.f(1)", "b": "package b\nf(x) := x"}}
    )
    world.settle()
    assert sent == ["POST /v1/fairlead/policies"]
    world.cluster({**SYSTEM, "map": {"c": "package c"}})
    world.settle()
    loaded, removed = sent[1:]
    assert (loaded, removed) == ("PUT /v1/policies/fairlead/map/c", sent[0])
    assert set(world.server.own_policies()) == {
        "fairlead/fairlead-policies/main.rego",
        "fairlead/map/c",
    }


def test_an_opa_without_the_plugin_gets_one_policy_after_the_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.opa, "change_policies", lambda put, remove: False)
    world.cluster({"map": {"a": "package a\nx := data.b.f(1)", "b": "package b\nf(x) := x"}})
    world.settle()
    assert world.opa.document(["a", "x"]) == 1
    world.cluster({})
    world.settle()
    assert world.server.own_policies() == {}


def test_a_policy_waits_for_one_that_comes_later(world: World) -> None:
    user = {"a.rego": "package a\nx := data.b.f(1)"}
    world.cluster({"map": user})
    world.settle()
    assert world.problems[OWNER][0]["errors"][0]["location"] == {
        "file": "fairlead/map/a.rego",
        "row": 2,
        "col": 6,
    }
    world.cluster({"map": user, "other": {"b.rego": "package b\nf(x) := x"}})
    world.settle()
    assert world.problems[OWNER] == []
    assert world.opa.document(["a", "x"]) == 1


def test_an_invalid_policy_leaves_the_old_one_in_force_even_if_opa_restarts(world: World) -> None:
    world.cluster({"map": {"a.rego": "package a\nx := 1", "b.rego": "package b\ny := data.a.x"}})
    world.settle()
    world.cluster({"map": {"a.rego": "package a\n\nx := y", "b.rego": "package b\ny := data.a.x"}})
    world.settle()
    assert world.problems[OWNER][0]["errors"][0]["location"]["row"] == 3
    assert world.opa.document(["b", "y"]) == 1
    assert world.reconciler.rejected == ("fairlead/map/a.rego",)
    assert world.reconciler.trouble is None
    world.server.stop()
    world.server.start()
    world.settle()
    assert world.opa.document(["b", "y"]) == 1
    assert world.problems[OWNER][0]["errors"][0]["location"]["row"] == 3
    world.cluster({"map": {"a.rego": "package a\nx := 2"}})
    world.settle()
    assert world.opa.document(["a", "x"]) == 2
    assert not world.reconciler.rejected


def test_removed_keys_labels_and_config_maps_leave_nothing_behind(world: World) -> None:
    world.cluster(
        {"map": {"a": "package a", "b": "package b"}},
        {"facts": {"x": "1", "y": "2"}, "more": {"z": "3"}},
        {"n": {}},
    )
    world.settle()
    world.cluster({"map": {"a": "package a"}}, {"facts": {"x": "1"}})
    world.settle()
    assert list(world.server.own_policies()) == ["fairlead/map/a"]
    assert world.opa.document(["fairlead"]) == {"facts": {"x": 1}}
    assert world.opa.document(["kubernetes", "namespaces"]) == {}
    world.cluster()
    world.settle()
    assert world.server.own_policies() == {}
    assert world.opa.document(["fairlead"]) == {}


def test_a_policy_moved_to_another_config_map_is_loaded_there(world: World) -> None:
    text = "package a\ndefault x := 1"
    world.cluster({"map": {"a": text}})
    world.settle()
    world.cluster({"other": {"a": text}})
    world.settle()
    assert list(world.server.own_policies()) == ["fairlead/other/a"]
    assert world.problems["fairlead", "other"] == []


def test_a_new_sidecar_removes_what_an_earlier_one_left_and_nothing_else(world: World) -> None:
    world.cluster({"map": {"a": "package a"}, "gone": {"b": "package b"}}, {"facts": {"x": "1"}})
    world.settle()
    world.opa.put_policy("by/someone/else", "package c")
    world.opa.put_document(["fairlead", "by-hand"], 1)
    world.sidecar()
    world.cluster({"map": {"a": "package a"}})
    world.settle()
    assert sorted(world.server.own_policies()) == ["by/someone/else", "fairlead/map/a"]
    assert world.opa.document(["fairlead"]) == {"by-hand": 1}


def test_a_restarted_opa_is_noticed_between_two_comparisons_and_loaded_again(world: World) -> None:
    world.cluster(
        {"map": {"a": "package a\nx := 1"}}, {"facts": {"x": "1"}}, {"n": {"agentpool": "p"}}
    )
    world.settle()
    world.server.stop()
    with pytest.raises(OpaUnavailable):
        world.reconciler.cycle()
    world.server.start()
    world.reconciler._compare_at = float("inf")
    world.reconciler.cycle()
    assert world.opa.document(["a", "x"]) == 1
    assert world.opa.document(["fairlead", "facts", "x"]) == 1
    assert "n" in (world.opa.document(["kubernetes", "namespaces"]) or {})
    assert b"fairlead_sync_resyncs_total 2.0" in generate_latest(world.metrics.registry)


def test_what_someone_changes_in_opa_is_put_right(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.cluster(
        {"map": {"a": "package a\nx := 1", "b": "package b"}},
        {"facts": {"x": "1"}},
        {"n": {}, "m": {}},
    )
    world.settle()
    world.opa.put_policy("fairlead/map/a", "package a\nx := 2")
    world.opa.remove_policy("fairlead/map/b")
    world.opa.put_document(["fairlead", "facts", "x"], 2)
    world.opa.put_document(["kubernetes", "namespaces", "n"], {"metadata": {"labels": "none"}})
    world.opa.put_document(["kubernetes", "namespaces", "stranger"], {})
    world.opa.remove_document(["kubernetes", "namespaces", "m"])
    with caplog.at_level(logging.WARNING):
        world.settle()
    assert "changed by someone else" in caplog.text
    assert world.opa.document(["a", "x"]) == 1
    assert "fairlead/map/b" in world.server.own_policies()
    assert world.opa.document(["fairlead", "facts", "x"]) == 1
    rest = {"labels": {}, "absentLabels": ["agentpool"]}
    thin: dict[str, Any] = {name: {"metadata": {"name": name, **rest}} for name in ("n", "m")}
    assert world.opa.document(["kubernetes", "namespaces"]) == thin


def test_nothing_is_written_where_all_is_right(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cluster({"map": {"a": "package a", "bad": "package"}}, {"facts": {"x": "1"}}, {"n": {}})
    world.settle()

    def fail(*_: object) -> None:
        raise AssertionError("written")

    for method in (
        "put_policy",
        "change_policies",
        "put_json",
        "put_document",
        "patch_json",
        "remove_policy",
        "remove_document",
    ):
        monkeypatch.setattr(world.opa, method, fail)
    for _ in range(3):
        world.settle()


def test_bad_data_leaves_the_old_in_force(world: World) -> None:
    world.cluster(data={"facts": {"x": "1", "y": "2"}})
    world.settle()
    world.cluster(data={"facts": {"x": "{", "y": "3"}})
    world.settle()
    assert world.opa.document(["fairlead", "facts"]) == {"x": 1, "y": 3}
    assert "is not JSON" in world.messages("facts")[0]
    world.server.stop()
    world.server.start()
    world.settle()
    assert world.opa.document(["fairlead", "facts"]) == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    "broken", [[1], {"instance": 1, "owned": [1, ["x"], ["policy", 2], None]}, {"owned": 1}]
)
def test_a_marker_that_someone_broke_is_written_again(world: World, broken: object) -> None:
    world.cluster({"map": {"a": "package a"}})
    world.settle()
    written = world.opa.document([MARKER])
    world.opa.put_document([MARKER], broken)
    world.settle()
    assert world.opa.document([MARKER]) == written
    assert list(world.server.own_policies()) == ["fairlead/map/a"]


def test_failures_are_told_and_tried_again_until_opa_is_there(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.stop()
    world.cluster({"map": {"a": "package a"}})
    stop = Event()
    thread = Thread(target=world.reconciler.run, args=(stop, lambda: None))
    thread.start()
    try:
        waiting.until(
            lambda: "cannot be reached" in (world.reconciler.trouble or ""),
            deadline=opa_server.DEADLINE,
            what="trouble",
        )
        assert world.reconciler.lag() > 0
        world.server.start()
        waiting.until(
            lambda: world.reconciler.trouble is None, deadline=opa_server.DEADLINE, what="recovery"
        )
        assert "fairlead/map/a" in world.server.own_policies()
    finally:
        stop.set()
        world.desired.changed.set()
        thread.join()


def test_policies_wait_until_all_that_they_may_read_is_known(world: World) -> None:
    world.desired.replace(POLICIES, [make_config_map("map", {"a": "package a"})])
    for source in (NAMESPACES, PODS):
        world.desired.replace(source, [])
    world.settle()
    assert world.server.own_policies() == {}
    assert world.reconciler.trouble == "not known from the API server yet: ConfigMaps, nodes"
    world.desired.replace(DATA, [])
    world.settle()
    assert world.server.own_policies() == {}
    assert world.reconciler.trouble == "not known from the API server yet: nodes"
    world.desired.replace(NODES, [])
    world.settle()
    assert list(world.server.own_policies()) == ["fairlead/map/a"]


def test_when_all_restart_together_a_bad_policy_is_told_and_the_rest_is_loaded(
    world: World,
) -> None:
    world.cluster(
        {**SYSTEM, "map": {"bad": "package bad\nx := y", "good": "package good"}},
        {"facts": {"x": "{"}},
    )
    world.settle()
    world.server.stop()
    world.server.start()
    world.sidecar()
    world.problems.clear()
    world.settle()
    assert sorted(world.server.own_policies()) == [
        "fairlead/fairlead-policies/main.rego",
        "fairlead/map/good",
    ]
    assert world.problems[OWNER][0]["errors"][0]["location"]["file"] == "fairlead/map/bad"
    assert "is not JSON" in world.messages("facts")[0]
    assert world.reconciler.trouble is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"{}"),
        (503, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b'{"result": 5}'),
        (200, b""),
        (400, b"garbage"),
    ],
)
def test_an_opa_that_answers_garbage_is_told_and_nothing_that_was_in_force_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
) -> None:
    def answer(*_: object, **__: object) -> requests.Response:
        made = requests.Response()
        made.status_code, made._content = status, body
        return made

    world.cluster({"map": {"a": "package a"}}, {"facts": {"x": "1"}}, {"n": {}})
    world.settle()
    with monkeypatch.context() as patched:
        patched.setattr(world.opa, "exchange", answer)
        for _ in range(2):
            with pytest.raises(FairleadError) as caught:
                world.settle()
            world.reconciler._failed(caught.value)
            assert world.reconciler.trouble
    assert list(world.server.own_policies()) == ["fairlead/map/a"]
    world.settle()
    assert world.reconciler.trouble is None
    assert world.opa.document(["fairlead", "facts", "x"]) == 1

"""The reconciler, step by step against a real OPA."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import opa_server
import pytest
import requests
from opa_server import OpaServer

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.kube.resources import Resource
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import DocumentRejected, OpaUnavailable
from fairlead.policy import bundles
from fairlead.sync import policy_problems, stores
from fairlead.sync.desired import Desired, Owner, Source
from fairlead.sync.metrics import Metrics
from fairlead.sync.policy_problems import Problem
from fairlead.sync.reconcile import MARKER, Reconciler
from fairlead.sync.statuses import Verdict

POLICIES = Source("policies", "fairlead")
DATA = Source("data", "fairlead")
NAMESPACES = Source("namespaces")
PODS = Source("objects", resource=Resource("", "v1", "pods", True))
NODES = Source("objects", resource=Resource("", "v1", "nodes", False))
SYSTEM = {"fairlead-policies": {"main.rego": "package system\nmain := 1"}}
OWNER = ("fairlead", "map")


class World:
    """A reconciler with its OPA; the test sets the state of the cluster."""

    def __init__(self, server: OpaServer) -> None:
        self.server = server
        self.opa = server.api()
        self.problems: dict[Owner, list[Problem]] = {}
        sources = [POLICIES, DATA, NAMESPACES, PODS, NODES]
        self.desired = Desired(sources, namespace_labels=["agentpool"], data_label=None)
        self.confirmed: float | None = None
        self.max_staleness: int | None = None
        self.sidecar()

    def sidecar(self) -> None:
        """A new sidecar, as after its restart."""
        self.metrics = Metrics()
        self.reconciler = Reconciler(
            self.desired,
            self.connect,
            self.report,
            self.metrics,
            confirmed=lambda: self.confirmed,
            max_staleness=self.max_staleness,
            replicate_path=["kubernetes"],
            resources=[source.resource for source in (PODS, NODES) if source.resource],
        )

    def report(self, verdicts: dict[Owner, Verdict]) -> None:
        self.problems |= {owner: list(verdict.problems) for owner, verdict in verdicts.items()}

    def connect(self) -> OpaApi:
        return self.opa

    def cluster(
        self,
        policies: dict[str, dict[str, str]] | None = None,
        data: dict[str, dict[str, str]] | None = None,
        namespaces: dict[str, dict[str, str]] | None = None,
        pods: dict[tuple[str, str], dict[str, Any]] | None = None,
    ) -> None:
        """Set the cluster: all ConfigMaps by name, all namespaces with their labels, all pods by
        namespace and name.
        """
        for source, maps in ((POLICIES, policies), (DATA, data)):
            self.desired.replace(
                source, [_config_map(name, texts) for name, texts in (maps or {}).items()]
            )
        listed = [
            {"metadata": {"name": name, "labels": labels}}
            for name, labels in (namespaces or {}).items()
        ]
        self.desired.replace(NAMESPACES, listed)
        named = [_pod(namespace, name, rest) for (namespace, name), rest in (pods or {}).items()]
        self.desired.replace(PODS, named)
        self.desired.replace(NODES, [])

    def settle(self) -> None:
        """Reconcile with a full comparison."""
        self.reconciler._compare_at = float("-inf")
        self.reconciler.cycle()

    def messages(self, name: str = "map") -> list[str]:
        return [problem["message"] for problem in self.problems["fairlead", name]]


def _config_map(name: str, texts: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "fairlead", "resourceVersion": "1"},
        "data": texts,
    }


def _pod(namespace: str, name: str, rest: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name}, **rest}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with opa_server.running(OpaServer(tmp_path)) as server:
        yield World(server)


def confirmed(world: World) -> Any:
    """The time since the last confirmation in OPA, in tens of seconds, and for how many seconds it
    counts.
    """
    document: Any = world.opa.document(["fairlead_confirmed"])
    return document and (round(time.time() - document["at"] / 1e9, -1), document.get("within"))


def test_opa_is_told_up_to_when_it_holds_everything(world: World) -> None:
    world.cluster()
    world.settle()
    assert confirmed(world) is None
    world.confirmed = time.monotonic() - 30
    world.settle()
    assert confirmed(world) == (30, None)
    world.confirmed += 20
    world.settle()
    assert confirmed(world) == (10, None)
    world.max_staleness = 60
    world.sidecar()
    world.settle()
    assert confirmed(world) == (10, 60)


def test_what_opa_does_not_hold_is_not_confirmed(world: World) -> None:
    world.confirmed = time.monotonic() - 30
    world.desired.replace(NAMESPACES, [])
    world.settle()
    assert world.reconciler.trouble
    assert confirmed(world) is None
    world.cluster()
    world.settle()
    assert confirmed(world) == (30, None)


def test_an_opa_that_restarted_and_a_clock_that_was_set_are_told_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cluster()
    world.confirmed = time.monotonic()
    world.settle()
    world.server.stop()
    world.server.start()
    world.settle()
    assert confirmed(world) == (0, None)
    monkeypatch.setattr(time, "time_ns", lambda: 3600 * 10**9)
    world.settle()
    document: Any = world.opa.document(["fairlead_confirmed"])
    assert 3500 < document["at"] / 1e9 <= 3600


def test_no_more_is_written_than_tells_anything_new(world: World) -> None:
    world.cluster()
    world.confirmed = time.monotonic()
    world.settle()
    before = world.opa.document(["fairlead_confirmed"])
    world.confirmed += 0.9
    world.settle()
    assert world.opa.document(["fairlead_confirmed"]) == before


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
    assert b"fairlead_sync_resyncs_total 2.0" in world.metrics.text()


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
        "put_json",
        "put_document",
        "patch_json",
        "remove_policy",
        "remove_document",
    ):
        monkeypatch.setattr(world.opa, method, fail)
    for _ in range(3):
        world.settle()


def test_a_policy_that_guards_opa_is_refused_however_it_is_spelt(world: World) -> None:
    spelt = {
        "a": 'package system["\\u0061uthz"]\nallow := true',
        "b": 'package system\nauthz["allow"] := true',
    }
    world.cluster({"fairlead-policies": spelt})
    world.settle()
    assert world.server.own_policies() == {}
    assert ["system.authz" in message for message in world.messages("fairlead-policies")] == [
        True,
        True,
    ]


def test_a_policy_of_what_decision_logs_hide_is_refused_however_it_is_spelt(world: World) -> None:
    spelt = {"a": "package system.log\ndrop := false", "b": "package system\nlog.drop := false"}
    world.cluster({"fairlead-policies": spelt})
    world.settle()
    assert world.server.own_policies() == {}
    assert ["system.log" in message for message in world.messages("fairlead-policies")] == [
        True,
        True,
    ]


def test_what_opa_reads_from_files_alone_is_what_the_sidecar_refuses() -> None:
    packages = {name: (bundles.folder() / name).read_text() for name in bundles.FILE_MODULES}
    assert {f"package system.{own}" for own in policy_problems.OPAS_OWN} == {
        line
        for text in packages.values()
        for line in text.splitlines()
        if line.startswith("package ")
    }


def test_a_document_that_a_policy_shadows_is_told_by_name(world: World) -> None:
    policies = {"map": {"a": "package fairlead.facts.x\ny := 1"}}
    world.cluster(policies)
    world.settle()
    world.cluster(policies, {"facts": {"x": '{"y": 2}'}})
    world.settle()
    assert world.problems[OWNER] == []
    assert world.messages("facts")[0].startswith("fairlead/facts/x: ")
    assert world.opa.document(["fairlead", "facts", "x", "y"]) == 1


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
def test_a_marker_that_someone_broke_is_written_anew(world: World, broken: object) -> None:
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


def test_replicated_objects_follow_the_cluster(world: World) -> None:
    web = {("shop", "web"): {"spec": {"x": 1.0}}, ("shop", "db"): {}, ("bank", "web"): {}}
    world.cluster(pods=web)
    world.settle()
    assert world.opa.document(["kubernetes", "pods"]) == {
        "shop": {"web": _pod("shop", "web", {"spec": {"x": 1}}), "db": _pod("shop", "db", {})},
        "bank": {"web": _pod("bank", "web", {})},
    }
    world.cluster(pods={("shop", "web"): {"spec": {"x": 2}}, ("new", "web"): {}})
    world.settle()
    assert world.opa.document(["kubernetes", "pods"]) == {
        "shop": {"web": _pod("shop", "web", {"spec": {"x": 2}})},
        "new": {"web": _pod("new", "web", {})},
    }
    assert b'fairlead_sync_objects{resource="pods"} 2.0' in world.metrics.text()


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
    monkeypatch.setattr(stores.pieces, "__kwdefaults__", {"most": 1000, "operations": 5})
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
    assert b"fairlead_sync_pending 1.0" in world.metrics.text()
    monkeypatch.setattr(world.opa, "put_json", put)
    world.settle()
    assert world.reconciler.trouble is None


def test_policies_wait_until_all_that_they_may_read_is_known(world: World) -> None:
    world.desired.replace(POLICIES, [_config_map("map", {"a": "package a"})])
    for source in (DATA, NAMESPACES, PODS):
        world.desired.replace(source, [])
    world.settle()
    assert world.server.own_policies() == {}
    assert world.reconciler.trouble == "not known from the API server yet: nodes"
    world.desired.replace(NODES, [])
    world.settle()
    assert list(world.server.own_policies()) == ["fairlead/map/a"]


@pytest.mark.parametrize(
    "text",
    [
        "package system\nmain := 2",
        "package system.health\nready := true",
        "# c\npackage # d\n  system\nx := 1",
        'package system["logs"]\nmask := {"x"}',
        "\ufeffpackage system\nmain := 2",
        "package system\n"
        + "\n".join(f"x{number} if input.x == {number}" for number in range(30_000)),
    ],
)
def test_the_package_system_is_defined_by_its_own_config_map_alone(world: World, text: str) -> None:
    world.cluster({**SYSTEM, "map": {"a": "package a", "evil": text}})
    world.settle()
    assert sorted(world.server.own_policies()) == [
        "fairlead/fairlead-policies/main.rego",
        "fairlead/map/a",
    ]
    assert world.problems["fairlead", "fairlead-policies"] == []
    (message,) = world.messages()
    assert message.startswith(f"fairlead/map/evil:{3 if text.startswith('#') else 1}: ")
    assert "come from the ConfigMap fairlead/fairlead-policies alone" in message
    assert world.opa.document(["system", "main"]) == 1


def test_a_policy_that_only_speaks_of_system_is_loaded(world: World) -> None:
    texts = {
        "a": "package a\nx := data.system.main",
        "b": "package systems\n# package system",
        "c": "package c.system",
    }
    world.cluster({**SYSTEM, "map": texts})
    world.settle()
    assert world.messages() == []


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
    world.desired = Desired([everything, NAMESPACES], namespace_labels=[], data_label=None)
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


def test_a_file_that_is_renamed_is_loaded_by_its_new_name(world: World) -> None:
    world.cluster({"map": {"a": "package a\ndefault x := 1"}})
    world.settle()
    world.cluster({"map": {"renamed": "package a\ndefault x := 2"}})
    world.settle()
    assert world.problems[OWNER] == []
    assert sorted(world.server.own_policies()) == ["fairlead/map/renamed"]
    assert world.opa.document(["a", "x"]) == 2


def test_a_file_that_is_renamed_while_others_need_it_is_in_force_all_the_same(world: World) -> None:
    text = "package a\ndefault x := {}\nf(y) := y"
    user = "package b\ny := data.a.f(1)"
    world.cluster({"map": {"a": text.format(1), "user": user}})
    world.settle()
    world.cluster({"map": {"renamed": text.format(2), "user": user}})
    world.settle()
    assert world.problems[OWNER] == []
    assert world.opa.document(["a", "x"]) == 2
    world.server.stop()
    world.server.start()
    world.settle()
    assert sorted(world.server.own_policies()) == ["fairlead/map/renamed", "fairlead/map/user"]


def test_a_file_that_is_renamed_by_a_push_is_in_force_by_its_new_name(world: World) -> None:
    """The policy that switches to the new revision waits for all others of it, but not for a text
    that stands in for another.
    """
    renamed = "package system.extra\ndefault x := 1"

    def staged(name: str, revision: str) -> dict[str, str]:
        main = f"package system\nmain := data.r_{revision}.one.x"
        return {
            f"{revision}.one.rego": f"package r_{revision}.one\nx := 1",
            "main.rego": main,
            name: renamed,
        }

    for name, revision in (("extra.rego", "0123456789ab"), ("other.rego", "abcdef012345")):
        data = staged(name, revision)
        world.cluster({"fairlead-policies": data})
        world.settle()
    assert {id_.rpartition("/")[2] for id_ in world.server.own_policies()} == data.keys()
    assert world.problems["fairlead", "fairlead-policies"] == []


def test_a_file_that_is_renamed_and_broken_leaves_the_old_one_in_force(world: World) -> None:
    world.cluster({"map": {"a": "package a\ndefault x := 1"}})
    world.settle()
    world.cluster({"map": {"renamed": "package a\ndefault x := 2\n\ny := z"}})
    for _ in range(3):
        world.settle()
    assert world.server.own_policies() == {"fairlead/map/a": "package a\ndefault x := 1"}
    (problem,) = world.problems[OWNER]
    assert problem["errors"][0]["location"] == {"file": "fairlead/map/renamed", "row": 4, "col": 6}
    assert "fairlead/map/a:" not in str(problem)


def test_of_an_update_that_is_half_bad_nothing_is_removed(world: World) -> None:
    world.cluster({"map": {"a": "package a\nx := data.b.f(1)", "b": "package b\nf(x) := x"}})
    world.settle()
    world.cluster({"map": {"a": "package a\nx := data.c.f(2)", "c": "package c\nf(x) := y"}})
    world.settle()
    assert sorted(world.server.own_policies()) == ["fairlead/map/a", "fairlead/map/b"]
    assert world.opa.document(["a", "x"]) == 1
    world.cluster({"map": {"a": "package a\nx := data.c.f(2)", "c": "package c\nf(x) := x"}})
    world.settle()
    assert sorted(world.server.own_policies()) == ["fairlead/map/a", "fairlead/map/c"]
    assert world.opa.document(["a", "x"]) == 2


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


def test_a_policy_too_large_to_be_checked_is_refused_where_it_matters(world: World) -> None:
    large = "package {}\n# {}\n" + "\n".join(f'x{number} := "{"y" * 900}"' for number in range(300))
    texts = {
        "a": large.format("kubernetes.x", "data.kubernetes.pods"),
        "b": large.format("kubernetes.y", ""),
    }
    world.cluster({"map": texts, "fairlead-policies": {"c": large.format("system", "authz")}})
    world.settle()
    assert list(world.server.own_policies()) == ["fairlead/map/b"]
    for name in ("map", "fairlead-policies"):
        assert "is too large to be checked" in world.messages(name)[0]


def test_a_policy_as_large_as_a_config_map_can_hold_is_loaded(world: World) -> None:
    rules = "\n".join(f'x{number} := "{"ä" * 480}"' for number in range(1000))
    text = f"package system.large\n{rules}"
    assert len(text.encode()) > 950_000
    world.opa._connection.timeout = 60.0
    world.cluster({"fairlead-policies": {"a": text}})
    world.settle()
    assert world.problems["fairlead", "fairlead-policies"] == []
    assert world.opa.document(["system", "large", "x999"]) == "ä" * 480


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
        patched.setattr(world.opa._connection, "exchange", answer)
        for _ in range(2):
            with pytest.raises(FairleadError) as caught:
                world.settle()
            world.reconciler._failed(caught.value)
            assert world.reconciler.trouble
    assert list(world.server.own_policies()) == ["fairlead/map/a"]
    world.settle()
    assert world.reconciler.trouble is None
    assert world.opa.document(["fairlead", "facts", "x"]) == 1

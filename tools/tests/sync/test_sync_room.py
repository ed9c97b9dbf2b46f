"""The room in OPA for objects that users size."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from sync_world import NODES, PODS

from fairlead.sync import room, stores
from fairlead.sync.desired import Desired, Source
from fairlead.sync.room import Room

SMALL = room.cost(stores.canonical({"metadata": {"name": "a", "namespace": "shop"}}))


def listed(*names: str, namespace: str = "shop", **rest: Any) -> list[dict[str, Any]]:
    return [{"metadata": {"name": name, "namespace": namespace}, **rest} for name in names]


def of(desired: Desired, source: Source = PODS) -> set[str]:
    store = desired.take().stores[source.store or ""] or {}
    return {"/".join(filter(None, key)) for key in store}


@pytest.fixture
def desired(monkeypatch: pytest.MonkeyPatch) -> Desired:
    """Of two resources, with room for eight small objects each, so for two of one namespace."""
    monkeypatch.setattr(room, "ALL", 2 * 8 * SMALL)
    desired = Desired([PODS, NODES], namespace_labels=["customer"])
    for source in (PODS, NODES):
        desired.replace(source, [])
    return desired


def test_an_object_costs_what_its_values_take_rather_than_its_bytes() -> None:
    maps, texts = stores.canonical([{"a": 1}] * 1000), stores.canonical("a" * 8000)
    assert len(maps) == pytest.approx(len(texts), rel=0.01)
    assert room.cost(maps) > 10 * room.cost(texts) > 0
    assert room.cost(stores.canonical("\U0001f600" * 1000)) > 12_000


def test_of_a_namespace_comes_only_so_much_and_others_have_their_room(desired: Desired) -> None:
    everything = [*listed("a", "b", "c", "d"), *listed("x", namespace="other")]
    desired.replace(PODS, everything)
    assert of(desired) == {"shop/a", "shop/b", "other/x"}
    assert desired.left_out(PODS) == [("shop", "c"), ("shop", "d")]
    assert desired.left_out(NODES) == []


def test_of_a_resource_comes_only_so_much(desired: Desired) -> None:
    desired.replace(NODES, listed(*"abcdefghij", namespace=""))
    assert len(of(desired, NODES)) == 8
    assert len(desired.left_out(NODES)) == 2


def test_an_object_that_outgrows_its_room_is_absent_and_not_stale(
    desired: Desired, caplog: pytest.LogCaptureFixture
) -> None:
    desired.replace(PODS, listed("a"))
    (larger,) = listed("a", spec={"x": "x" * 2 * SMALL})
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            desired.apply(PODS, False, larger)
    assert (of(desired), desired.left_out(PODS)) == (set(), [("shop", "a")])
    assert caplog.messages == ["shop/a is left out of OPA's data: there is no room for it"]
    desired.apply(PODS, False, listed("b")[0])
    desired.apply(PODS, False, listed("a")[0])
    assert (of(desired), desired.left_out(PODS)) == ({"shop/a", "shop/b"}, [])


def test_what_is_removed_gives_its_room_back(desired: Desired) -> None:
    a, b, c = listed("a", "b", "c")
    desired.replace(PODS, [a, b, c])
    desired.apply(PODS, True, c)
    assert desired.left_out(PODS) == []
    desired.apply(PODS, True, a)
    desired.apply(PODS, False, c)
    assert of(desired) == {"shop/b", "shop/c"}


def test_one_object_has_its_own_limit() -> None:
    text = stores.canonical("x" * (room.OBJECT // 3))
    assert not Room(room.ALL).put(("shop", "a"), None, text)
    assert Room(room.ALL).put(("shop", "a"), None, text[: len(text) // 2])


def test_names_are_kept_of_a_thousand_objects_without_room() -> None:
    full = Room(0)
    for number in range(2000):
        assert not full.put(("shop", str(number)), None, "{}")
    assert len(full.left_out) == 1000


def test_of_a_long_annotation_of_a_namespace_comes_the_beginning(desired: Desired) -> None:
    long = {"customer": "\U0001f600" * 60_000, "other": "x"}
    assert desired.replicated(long) == {"customer": "\U0001f600" * 1024 + "..."}
    assert desired.replicated({"customer": "a" * 1024}) == {"customer": "a" * 1024}

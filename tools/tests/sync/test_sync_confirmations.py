"""Up to when OPA is known to hold all that the cluster says."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sync_world import NAMESPACES, World


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

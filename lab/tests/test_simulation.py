"""The simulation of large clusters gives the same figures for the same seed, and plays what its
scenarios say."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import util
from typing import Any

import pytest

from fairlead.common import paths

FILE = paths.root() / "bench" / "simulation.py"


@pytest.fixture(scope="module")
def simulation() -> Any:
    spec = util.spec_from_file_location("simulation", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules["simulation"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(simulation: Any) -> Any:
    """A cluster with 100 relabelled namespaces of 15 pods."""
    return replace(simulation.Constants(), relabelled=100)


def test_the_same_seed_gives_the_same_figures(simulation: Any, small: Any) -> None:
    first = simulation.relabelling(small, 1)
    assert simulation.relabelling(small, 1) == first
    assert simulation.relabelling(small, 2) != first


def test_each_pod_of_a_relabelled_namespace_is_created_as_fast_as_controllers_may(
    simulation: Any, small: Any
) -> None:
    row = simulation.relabelling(small, 1)
    assert (row["pods"], row["refused"]) == (1500, 0)
    assert row["lastPod"] >= 1500 / small.creations


def test_a_pod_that_comes_before_the_label_gets_the_former_pool(
    simulation: Any, small: Any
) -> None:
    late = replace(small, lag=10.0, longest_lag=60.0, rollout=0.001)
    assert simulation.relabelling(late, 1)["formerPool"] > 100


def test_an_outage_refuses_and_delays_pods_and_loses_none(simulation: Any, small: Any) -> None:
    none = simulation.outage(small, 1, 0.0001)
    assert none["refused"] == 0
    short, long = (simulation.outage(small, 1, seconds) for seconds in (2.0, 30.0))
    for row, seconds in ((short, 2.0), (long, 30.0)):
        assert row["refused"] > row["pods"] > 0
        assert row["delay"] > row["afterReturn"] > 0
        assert row["lastPod"] > seconds
    assert long["pods"] > short["pods"]


def test_a_hung_opa_holds_the_workers_of_the_controller(simulation: Any, small: Any) -> None:
    """Each of them waits for a whole timeout before it tries the next ReplicaSet."""
    row = simulation.outage(small, 1, 30.0, hung=True)
    assert 0 < row["refused"] <= small.workers * (30.0 / small.timeout + 1)

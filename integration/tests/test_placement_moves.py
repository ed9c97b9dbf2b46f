"""Moves between two member clusters: how many replicas are ready on the way, as each event of the
API servers says, and what is left if a move is interrupted."""

from __future__ import annotations

import pytest
import yaml
from federations import BOTH, CLUSTERS, Federation, actions
from forwarded import Forwarder, forwarded
from watched_replicas import watched

from fairlead.clusters import registry
from fairlead.common.progress import Progress
from fairlead.federation.members import Member

pytestmark = pytest.mark.skipif(
    registry.of_environment().kind != "embedded", reason="the members are embedded clusters"
)
ASKED = 6


@pytest.mark.parametrize(("share", "at_once"), [(0.34, 2), (0.1, 1)])
def test_no_more_than_the_share_moves_at_once(
    federation: Federation, share: float, at_once: int
) -> None:
    assert federation.carry_out(federation.web({"eu-frankfurt": 1})).problems == []
    federation.until_running(ASKED, 0)
    with watched(federation.clusters, federation.namespace) as counts:
        report = federation.carry_out(federation.web({"us-dallas": 1}), share=share)
        federation.until_running(0, ASKED)
    assert report.problems == []
    assert actions(report)["eu-frankfurt"] == ["deployment/web deleted"]
    assert min(counts.ready) >= ASKED - at_once
    assert max(counts.wanted) <= ASKED + at_once
    assert len(set(counts.wanted)) > 1  # so the events were seen


def test_what_a_member_that_is_gone_should_take_stays_and_the_next_run_goes_on(
    federation: Federation,
) -> None:
    """A half of it moves; the member that disappears has the other half of the decision."""
    assert federation.carry_out(federation.web({"eu-frankfurt": 1})).problems == []
    federation.until_running(ASKED, 0)
    there, away = federation.members
    document = yaml.safe_load(away.kubeconfig)
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    gone = Member(away.name, yaml.safe_dump(document))
    with watched(federation.clusters, federation.namespace) as counts:
        report = federation.carry_out(federation.web(BOTH), members=[there, gone])
        assert [problem.split(":")[0] for problem in report.problems] == [
            "us-dallas",
            f"Deployment {federation.namespace}/web stays as it is in eu-frankfurt",
        ]
        assert federation.running() == dict(zip(CLUSTERS, (ASKED, 0), strict=True))
        assert federation.carry_out(federation.web(BOTH)).problems == []
        federation.until_running(3, 3)
    assert min(counts.ready) >= ASKED - 1


class Cutting(Progress):
    """Cuts a connection in the second step of a move, once replicas were started in it."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self.steps = 0

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        if state.startswith("waiting"):
            self.steps += 1
            if self.steps == 2:
                self._forwarder.cut()


def test_a_member_that_disappears_half_way_loses_nothing_and_the_next_run_goes_on(
    federation: Federation,
) -> None:
    assert federation.carry_out(federation.web({"eu-frankfurt": 1})).problems == []
    federation.until_running(ASKED, 0)
    moved = federation.web({"us-dallas": 1})
    source, target = federation.members
    with (
        watched(federation.clusters, federation.namespace) as counts,
        forwarded(target) as (unsteady, forwarder),
    ):
        progress = Cutting(forwarder)
        report = federation.carry_out(
            moved, members=[source, unsteady], share=0.34, progress=progress
        )
        unreachable, stays = report.problems
        assert unreachable.startswith("us-dallas: ")
        title = f"Deployment {federation.namespace}/web"
        assert stays == f"{title} stays as it is in eu-frankfurt: us-dallas does not answer"
        assert progress.steps == 2
        federation.until_running(4, 4)
        assert federation.carry_out(moved, share=0.34).problems == []
        federation.until_running(0, ASKED)
    assert min(counts.ready) >= ASKED - 2

"""The status of PlacementPolicies, written by several replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from fairlead.deployment.names import POLICY_OBJECTS
from fairlead.kube.clients import Objects
from fairlead.kube.errors import ApiServerError
from fairlead.sync.config_maps import Claim, Verdict
from fairlead.sync.desired import Desired, Source
from fairlead.sync.metrics import Metrics
from fairlead.sync.policy_problems import CLAIMED, Problem, problem
from fairlead.sync.statuses import StatusWriter

PLACEMENT = Source("placement")
OWNER = (POLICY_OBJECTS, "teams")
ID = "placement_policies/teams/rego"
BAD = problem("rego_type_error", "undefined function f", ID, 3, 6)
ELSEWHERE = problem("rego_type_error", "undefined function g", "fairlead/map/a", 2)


class FakeApi:
    """A PlacementPolicy on an API server, whose status replicas change and watch."""

    def __init__(self) -> None:
        self.version = 1
        self.generation = 1
        self.rego = "package teams"
        self.status: dict[str, Any] = {}
        self.watching: list[Desired] = []

    def call(
        self, method: str, path: str, patch: Mapping[str, Any] | None = None, **_: object
    ) -> dict[str, Any]:
        if method == "GET":
            return self.value()
        assert patch
        assert path == "/apis/policy.fairlead.dev/v1/placementpolicies/teams/status"
        if patch["metadata"]["resourceVersion"] != str(self.version):
            raise ApiServerError("the object has been modified", 409)
        opas = {**self.status.get("opas", {}), **patch["status"]["opas"]}
        opas = {
            name: {key: part for key, part in report.items() if part is not None}
            for name, report in opas.items()
            if report is not None
        }
        self.status = {**self.status, **patch["status"], "opas": opas}
        return self.tell()

    def change(self, rego: str) -> None:
        """Change the policy as its author."""
        self.rego = rego
        self.generation += 1
        self.tell()

    def tell(self) -> dict[str, Any]:
        """Send the policy to all watches."""
        self.version += 1
        for desired in self.watching:
            desired.apply(PLACEMENT, False, self.value())
        return self.value()

    def value(self) -> dict[str, Any]:
        metadata = {
            "name": "teams",
            "resourceVersion": str(self.version),
            "generation": self.generation,
            "creationTimestamp": "2026-03-02T09:00:00Z",
        }
        return {"metadata": metadata, "spec": {"rego": self.rego}, "status": self.status}

    def condition(self, type_: str) -> dict[str, Any]:
        (condition,) = [each for each in self.status["conditions"] if each["type"] == type_]
        return dict(condition)

    def ready(self) -> tuple[str, str, str]:
        condition = self.condition("Ready")
        return self.status["installed"], condition["status"], condition["reason"]


class Replica:
    """A replica that watches and writes, step by step."""

    def __init__(self, api: FakeApi, name: str) -> None:
        self.desired = Desired([PLACEMENT], namespace_labels=[])
        self.desired.replace(PLACEMENT, [api.value()])
        self.writer = StatusWriter(cast(Objects, api), self.desired, Metrics(), name)
        api.watching.append(self.desired)

    def write(
        self,
        *problems: Problem,
        rivals: tuple[str, ...] = (),
        shared: tuple[tuple[str, str], ...] = (),
        decided: str = "",
    ) -> None:
        known = self.desired.config_map(OWNER)
        assert known is not None
        claim = Claim(("teams",), rivals, shared)
        self.writer.report({OWNER: Verdict(known.fingerprint, problems, claim, decided)})
        self.again()

    def again(self) -> None:
        """Run another cycle at once."""
        self.writer.wake()
        self.writer.write()


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def pair(api: FakeApi) -> tuple[Replica, Replica]:
    """Two replicas that have installed the policy."""
    one, two = Replica(api, "one"), Replica(api, "two")
    for _ in range(3):
        one.write()
        two.write()
    return one, two


def test_all_replicas_are_counted_and_then_nothing_is_written(
    api: FakeApi, pair: tuple[Replica, Replica]
) -> None:
    assert api.ready() == ("2/2", "True", "Installed")
    assert api.status["package"] == "teams"
    assert api.condition("Conflicting")["status"] == "False"
    settled = api.version
    for replica in pair:
        replica.write()
    assert api.version == settled


def test_a_change_is_ready_once_every_replica_has_it(
    api: FakeApi, pair: tuple[Replica, Replica]
) -> None:
    one, two = pair
    since = api.condition("Conflicting")["lastTransitionTime"]
    api.change("package teams\nx := 1")
    one.write()
    assert api.ready() == ("1/2", "False", "Installing")
    assert api.status["observedGeneration"] == 2
    two.write()
    assert api.ready() == ("2/2", "True", "Installed")
    assert api.condition("Conflicting")["lastTransitionTime"] == since


def test_errors_have_the_line_of_the_rego_and_name_other_files(
    api: FakeApi, pair: tuple[Replica, Replica]
) -> None:
    one, two = pair
    one.write(BAD)
    assert api.ready() == ("1/2", "False", "Rejected")
    two.write(ELSEWHERE)
    assert api.ready() == ("0/2", "False", "Rejected")
    assert api.status["errors"] == [
        {"line": 3, "column": 6, "code": BAD["code"], "message": "undefined function f"},
        {
            "line": 0,
            "column": 0,
            "code": BAD["code"],
            "message": "fairlead/map/a:2: undefined function g",
        },
    ]
    assert api.condition("Ready")["message"] == "line 3: undefined function f"
    one.write()
    two.write()
    assert api.status["errors"] == []


def test_both_sides_of_a_conflict_say_who_stays_in_force(
    api: FakeApi, pair: tuple[Replica, Replica]
) -> None:
    for replica in pair:
        replica.write(rivals=("PlacementPolicy b",))
    assert api.ready() == ("2/2", "True", "Installed")
    assert api.condition("Conflicting")["message"] == (
        "this PlacementPolicy stays in force: PlacementPolicy b claims package teams, too"
    )
    for replica in pair:
        replica.write(problem(CLAIMED, "x", ID, 1), rivals=("PlacementPolicy a",))
    assert api.ready() == ("0/2", "False", "PackageClaimed")
    assert "this PlacementPolicy is not loaded" in api.condition("Conflicting")["message"]


@pytest.mark.parametrize(
    ("rivals", "shared", "words"),
    [
        (("b", "c"), (), "b and c claim package teams, too"),
        (("b", "c", "d"), (), "b, c and d claim package teams, too"),
        (
            ("b",),
            (("b", "teams.web"),),
            "b (package teams.web) claims package teams or a part of it, too",
        ),
        (
            ("b", "c"),
            (("c", "teams.web"),),
            "b and c (package teams.web) claim package teams or a part of it, too",
        ),
    ],
)
def test_a_conflict_names_all_others_and_what_both_claim(
    api: FakeApi,
    pair: tuple[Replica, Replica],
    rivals: tuple[str, ...],
    shared: tuple[tuple[str, str], ...],
    words: str,
) -> None:
    for replica in pair:
        replica.write(rivals=rivals, shared=shared)
    message = api.condition("Conflicting")["message"]
    assert message == f"this PlacementPolicy stays in force: {words}"


def test_a_replica_that_ends_is_no_longer_counted(
    api: FakeApi, pair: tuple[Replica, Replica]
) -> None:
    one, two = pair
    two.writer.retire()
    assert api.ready() == ("1/1", "True", "Installed")
    one.writer.retire()
    assert api.ready() == ("0/0", "Unknown", "NoReport")


def test_a_replica_that_was_killed_is_not_counted_once_another_takes_its_place(
    api: FakeApi, pair: tuple[Replica, Replica]
) -> None:
    one, gone = pair
    api.watching.remove(gone.desired)
    new = Replica(api, "new")
    for _ in range(3):
        new.write()
        one.write()
    assert api.status["opas"].keys() == {"one", "new"}
    assert api.ready() == ("2/2", "True", "Installed")


def decided(minute: int) -> str:
    return f'{{"outcome":"refused","time":"2026-03-02T12:{minute:02}:00Z"}}'


def test_the_latest_decision_of_all_replicas_is_shown_also_after_their_restart(
    api: FakeApi, pair: tuple[Replica, Replica]
) -> None:
    one, two = pair
    assert "lastDecision" not in api.status
    one.write(decided=decided(2))
    two.write(decided=decided(1))
    assert api.status["lastDecision"]["time"] == "2026-03-02T12:02:00Z"
    assert api.status["opas"]["two"]["lastDecision"]["time"] == "2026-03-02T12:01:00Z"
    settled = api.version
    one.write(decided=decided(2))
    two.write(decided=decided(1))
    assert api.version == settled
    for _ in range(3):
        one.write()
        two.write()
    assert "lastDecision" not in api.status["opas"]["one"]
    assert api.status["lastDecision"]["time"] == "2026-03-02T12:02:00Z"
    settled = api.version
    one.write()
    two.write()
    assert api.version == settled

"""The status annotations of ConfigMaps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from fairlead.deployment.names import REPLICA_STATUS, RETRIES, STATUS
from fairlead.kube.clients import Objects
from fairlead.kube.errors import ApiServerError
from fairlead.sync.config_maps import Owner, Verdict
from fairlead.sync.desired import Desired, Source
from fairlead.sync.metrics import Metrics
from fairlead.sync.policy_problems import Problem
from fairlead.sync.statuses import StatusWriter, overall, replica, text

POLICIES = Source("policies", "fairlead")
OWNER = ("fairlead", "rules")
OK = '{"status":"ok"}'
BAD: Problem = {"code": "c", "message": "m"}


class FakeApi:
    """A ConfigMap on an API server, which replicas annotate and watch."""

    def __init__(self) -> None:
        self.version = 1
        self.data = {"a.rego": "package a"}
        self.annotations: dict[str, str] = {}
        self.watching: list[Desired] = []
        self.written: list[str] = []
        self.error: ApiServerError | None = None
        self.echo = True

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **_: object
    ) -> dict[str, Any]:
        if self.error:
            raise self.error
        if method == "PATCH":
            assert body
            self.annotate(**body["metadata"])
        return self.value()

    # camelCase as in the API
    def annotate(self, resourceVersion: str, annotations: Mapping[str, str | None]) -> None:  # noqa: N803
        if resourceVersion != str(self.version):
            raise ApiServerError("the object has been modified", 409)
        if STATUS in annotations:
            self.written.append(annotations[STATUS] or "")
        self.change(annotations)

    def change(
        self, annotations: Mapping[str, str | None], data: dict[str, str] | None = None
    ) -> None:
        """Change the ConfigMap as somebody else."""
        self.version += 1
        self.data = data or self.data
        merged = {**self.annotations, **annotations}
        self.annotations = {key: value for key, value in merged.items() if value is not None}
        if self.echo:
            self.tell()

    def tell(self) -> None:
        """Send the ConfigMap to all watches."""
        for desired in self.watching:
            desired.apply(POLICIES, False, self.value())

    def value(self) -> dict[str, Any]:
        """The ConfigMap as the API has it."""
        metadata: dict[str, Any] = {
            "namespace": "fairlead",
            "name": "rules",
            "resourceVersion": str(self.version),
        }
        return {"metadata": {**metadata, "annotations": dict(self.annotations)}, "data": self.data}

    def entries(self) -> dict[str, dict[str, Any]]:
        """The statuses of the replicas."""
        own = {
            key: value for key, value in self.annotations.items() if key.startswith(REPLICA_STATUS)
        }
        return {key.removeprefix(REPLICA_STATUS): json.loads(value) for key, value in own.items()}


class Replica:
    """A replica that watches and annotates, step by step."""

    def __init__(self, api: FakeApi, name: str) -> None:
        self.desired = Desired([POLICIES], namespace_labels=[])
        self.desired.replace(POLICIES, [])
        self.writer = StatusWriter(cast(Objects, api), self.desired, Metrics(), name)
        api.watching.append(self.desired)
        api.tell()

    def verdict(self, *problems: Problem, owner: Owner = OWNER) -> None:
        known = self.desired.config_map(owner)
        self.writer.report({owner: Verdict(known.fingerprint if known else "unknown", problems)})

    def write(self, *problems: Problem) -> None:
        self.verdict(*problems)
        self.again()

    def again(self) -> None:
        """Run another cycle at once."""
        self.writer.wake()
        self.writer.write()


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def instance(api: FakeApi) -> Replica:
    return Replica(api, "one")


def test_the_annotation_has_kube_mgmts_form() -> None:
    problem = {
        "code": "c",
        "message": "m",
        "errors": [{"code": "e", "message": "x", "location": {"file": "f", "row": 3, "col": 1}}],
    }
    assert text([]) == OK
    assert json.loads(text([problem])) == {"status": "error", "error": problem}
    assert json.loads(text([problem, problem])) == {"status": "error", "error": [problem, problem]}


def test_the_annotation_stays_small_whatever_opa_quotes() -> None:
    long = {"code": "c", "message": "m", "errors": [{"details": {"line": "x" * 1_000_000}}] * 50}
    assert len(text([long])) < 20_000


def test_all_that_is_wrong_is_told_as_far_as_it_fits() -> None:
    status = json.loads(
        text([{"code": "c", "message": f"{number} {'x' * 1500}"} for number in range(20)])
    )
    assert [problem["message"][:2] for problem in status["error"]] == [
        f"{number} " for number in range(7)
    ]


def test_the_overall_status_follows_from_the_replicas_alone() -> None:
    bad, worse = text([BAD], of="1"), text([BAD, {"code": "d", "message": "n"}], of="1")
    assert overall({"a": text([], of="1"), "b": text([], of="1")}) == OK
    assert json.loads(overall({"a": text([], of="1"), "b": bad})) == {
        "status": "error",
        "error": BAD,
    }
    assert (
        overall({"b": bad, "a": worse})
        == overall({"a": worse, "b": bad})
        == text(json.loads(worse)["error"])
    )


@pytest.mark.parametrize(
    ("name", "part"), [("opa-7d9f-x2", "opa-7d9f-x2"), ("my.host", "my.host"), ("a" * 63, "a" * 63)]
)
def test_a_hosts_name_is_a_replicas_name(name: str, part: str) -> None:
    assert replica(name) == part


@pytest.mark.parametrize("name", ["", "_", "a b", "h\u00f6st", "a" * 64, "-a"])
def test_what_cannot_be_in_an_annotations_key_is_made_fit(name: str) -> None:
    part = replica(name)
    assert part == replica(part)
    assert part != name
    assert len(part) <= 63


def test_a_status_is_written_once_and_not_again_when_it_is_right(
    instance: Replica, api: FakeApi
) -> None:
    for _ in range(3):
        instance.write()
    assert api.written == [OK]
    known = instance.desired.config_map(OWNER)
    assert known is not None
    assert api.entries() == {"one": {"status": "ok", "of": known.fingerprint}}


def test_it_is_not_written_again_before_the_watch_brings_it_back(
    instance: Replica, api: FakeApi
) -> None:
    api.echo = False
    for _ in range(3):
        instance.write()
    assert api.written == [OK]


def test_a_status_of_policies_says_that_it_is_final_as_kube_mgmts_does(
    instance: Replica, api: FakeApi
) -> None:
    instance.write(BAD)
    assert api.annotations[RETRIES] == "0"
    api.change({RETRIES: "2"})
    instance.write()
    assert api.annotations[RETRIES] == "0"
    settled = api.version
    instance.again()
    assert api.version == settled


def test_data_have_no_retries(api: FakeApi) -> None:
    data = Source("data", "fairlead")
    desired = Desired([data], namespace_labels=[])
    desired.replace(data, [api.value()])
    known = desired.config_map(OWNER)
    assert known is not None
    writer = StatusWriter(cast(Objects, api), desired, Metrics(), "one")
    writer.report({OWNER: Verdict(known.fingerprint, ())})
    writer.write()
    assert api.annotations.keys() == {STATUS, REPLICA_STATUS + "one"}


def test_a_new_status_is_written_at_once(instance: Replica, api: FakeApi) -> None:
    instance.write()
    instance.write(BAD)
    assert [json.loads(written)["status"] for written in api.written] == ["ok", "error"]


def test_nothing_is_told_of_data_that_are_not_there_any_more(
    instance: Replica, api: FakeApi
) -> None:
    instance.verdict(BAD)
    api.change({}, {"a.rego": "package b"})
    instance.again()
    assert api.written == []
    instance.write()
    assert api.written == [OK]


def test_replicas_that_disagree_both_tell_and_settle(instance: Replica, api: FakeApi) -> None:
    two = Replica(api, "two")
    for _ in range(5):
        instance.write()
        two.write(BAD)
        assert json.loads(api.annotations[STATUS]) == {"status": "error", "error": BAD}
    assert {name: entry["status"] for name, entry in api.entries().items()} == {
        "one": "ok",
        "two": "error",
    }
    assert json.loads(api.annotations[STATUS]) == {"status": "error", "error": BAD}
    assert api.version == 4, "one tells, the other comes again, and one tells again"
    two.write()
    instance.again()
    assert api.annotations[STATUS] == OK
    settled = api.version
    for _ in range(5):
        instance.again()
        two.again()
    assert api.version == settled


def test_what_was_told_of_other_data_goes_with_the_next_word(
    instance: Replica, api: FakeApi
) -> None:
    two = Replica(api, "two")
    instance.write()
    two.write(BAD)
    api.change({}, {"a.rego": "package b"})
    instance.write()
    assert api.entries().keys() == {"one"}
    assert api.annotations[STATUS] == OK


def test_a_replica_that_is_gone_has_no_say_once_a_new_one_came(
    instance: Replica, api: FakeApi
) -> None:
    gone = Replica(api, "gone")
    instance.write()
    gone.write(BAD)
    api.watching.remove(gone.desired)
    new = Replica(api, "new")
    new.write()
    instance.again()
    new.again()
    assert api.entries().keys() == {"one", "new"}
    assert api.annotations[STATUS] == OK


def test_a_fight_with_someone_who_removes_what_replicas_tell_slows_down(
    instance: Replica, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("fairlead.sync.statuses.time.monotonic", lambda: now)
    two = Replica(api, "two")
    writes = 0
    for _ in range(120):
        now += 1
        before = api.version
        instance.write()
        two.write()
        writes += api.version - before
        api.change({REPLICA_STATUS + "one": None, REPLICA_STATUS + "two": None})
    assert writes < 30


def test_a_replica_that_starts_again_by_the_same_name_writes_nothing(
    instance: Replica, api: FakeApi
) -> None:
    two = Replica(api, "two")
    instance.write()
    two.write()
    settled = api.version
    Replica(api, "two").write()
    assert api.version == settled


def test_a_replica_that_ends_takes_its_word_back(instance: Replica, api: FakeApi) -> None:
    two = Replica(api, "two")
    instance.write()
    two.write(BAD)
    instance.again()
    two.writer.retire()
    assert api.entries().keys() == {"one"}
    assert api.annotations[STATUS] == OK
    instance.writer.retire()
    assert api.annotations == {STATUS: OK, RETRIES: "0"}, "the last one leaves what was told"


def test_what_was_written_a_moment_ago_is_taken_back_before_the_watch_tells_of_it(
    instance: Replica, api: FakeApi
) -> None:
    api.echo = False
    instance.write()
    assert api.entries().keys() == {"one"}
    instance.writer.retire()
    assert api.annotations == {STATUS: OK, RETRIES: "0"}


def test_a_change_that_comes_between_does_not_leave_the_word_behind(
    instance: Replica, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.write()
    annotate, conflicts = api.annotate, iter([True, True, False])

    def busy(*arguments: Any, **options: Any) -> None:
        if next(conflicts):
            api.change({"other": "x"})
        annotate(*arguments, **options)

    monkeypatch.setattr(api, "annotate", busy)
    instance.writer.retire()
    assert api.annotations == {STATUS: OK, RETRIES: "0", "other": "x"}


def test_an_api_server_that_is_away_does_not_hold_up_the_end(
    instance: Replica, api: FakeApi
) -> None:
    instance.write()
    api.error = ApiServerError("down")
    instance.writer.retire()


@pytest.mark.parametrize(
    "broken", ["", "[]", '{"status":"fine"}', '{"status":"error"}', '{"of":1}', "[" * 100_000]
)
def test_a_replicas_word_that_someone_broke_is_removed(
    instance: Replica, api: FakeApi, broken: str
) -> None:
    api.change({REPLICA_STATUS + "two": broken})
    instance.write()
    assert api.entries().keys() == {"one"}
    assert api.annotations[STATUS] == OK


def test_an_annotation_that_someone_broke_is_put_right_but_never_in_a_fight(
    instance: Replica, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("fairlead.sync.statuses.time.monotonic", lambda: now)
    for _ in range(60):
        now += 1
        instance.write()
        api.change({STATUS: "broken"})
    assert 5 <= len(api.written) <= 8, "every write waits twice as long as the one before"
    now += 60
    instance.again()
    assert api.annotations[STATUS] == OK


def test_a_config_map_that_another_has_changed_is_left_to_the_watch(
    instance: Replica, api: FakeApi
) -> None:
    api.echo = False
    api.change({"other": "x"})
    instance.write()
    assert api.written == []
    api.echo = True
    api.tell()
    instance.again()
    assert api.written == [OK]


def test_a_config_map_that_is_gone_is_left_to_the_watch(instance: Replica, api: FakeApi) -> None:
    api.error = ApiServerError("not found", 404)
    instance.write()
    api.error = None
    instance.again()
    assert api.written == [OK]


def test_a_failure_is_told_and_tried_again(instance: Replica, api: FakeApi) -> None:
    api.error = ApiServerError("no rights", 403)
    instance.verdict(owner=("fairlead", "unknown"))
    instance.verdict()
    with pytest.raises(ApiServerError, match="no rights"):
        instance.again()
    api.error = None
    instance.again()
    assert api.written == [OK]

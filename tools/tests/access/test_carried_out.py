"""What the controller makes of answers and of bindings, without a cluster."""

from __future__ import annotations

import copy
import json
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.access import bindings, decisions, statuses, trail
from fairlead.access import state as state_module
from fairlead.access.bindings import KINDS
from fairlead.access.granting import NotGranted
from fairlead.access.instants import SECOND
from fairlead.access.state import State
from fairlead.kube.clients import Objects
from fairlead.opa.errors import OpaUnavailable
from fairlead.sync.opa_credentials import OpaCredentials

PARENT: dict[str, Any] = {
    "apiVersion": "access.fairlead.dev/v1",
    "kind": "TransientRoleBinding",
    "metadata": {"name": "night", "namespace": "shop", "uid": "u-1", "generation": 1},
    "spec": {
        "validFrom": "1970-01-01T00:00:10Z",
        "validUntil": "1970-01-01T00:01:00Z",
        "roleRef": {"apiGroup": bindings.RBAC, "kind": "Role", "name": "view"},
        "subjects": [
            {"kind": "User", "name": "alice"},
            {"kind": "ServiceAccount", "name": "robot"},
        ],
    },
}
DECIDED: dict[str, Any] = {
    "apiVersion": f"{bindings.RBAC}/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "night", "namespace": "shop", "labels": {"controller-uid": "u-1"}},
    "roleRef": {"apiGroup": bindings.RBAC, "kind": "Role", "name": "view"},
    "subjects": [
        {"kind": "ServiceAccount", "name": "robot", "namespace": "shop"},
        {"apiGroup": bindings.RBAC, "kind": "User", "name": "alice"},
    ],
}
PENDING = {"type": "effective", "status": "False", "reason": "NotObserved", "message": "no"}
VALID = {"type": "failed", "status": "False", "reason": "Valid", "message": ""}
ANSWER: dict[str, Any] = {
    "children": [DECIDED],
    "status": {"conditions": [PENDING, VALID]},
    "resyncAfterSeconds": 1,
}


def changed(value: dict[str, Any], *path: str | int, to: Any) -> dict[str, Any]:
    """A copy with another value at a path."""
    result = copy.deepcopy(value)
    place: Any = result
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return result


def test_an_answer_about_this_parent_is_a_decision() -> None:
    decision = decisions._read(ANSWER, PARENT)
    assert (decision.binding, decision.seconds) == (DECIDED, 1.0)
    assert decisions._read({**ANSWER, "children": []}, PARENT).binding is None


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {**ANSWER, "children": None, "status": None},
        {key: part for key, part in ANSWER.items() if key != "children"},
        {**ANSWER, "children": [None]},
        {**ANSWER, "children": [DECIDED, DECIDED]},
        {**ANSWER, "children": "all"},
        {**ANSWER, "resyncAfterSeconds": "soon"},
        {**ANSWER, "status": {"conditions": [{}]}},
        changed(ANSWER, "children", 0, "metadata", "name", to="other"),
        changed(ANSWER, "children", 0, "metadata", "namespace", to="kube-system"),
        changed(ANSWER, "children", 0, "kind", to="ClusterRoleBinding"),
        changed(ANSWER, "children", 0, "roleRef", "name", to="cluster-admin"),
        changed(ANSWER, "children", 0, "subjects", 1, "name", to="eve"),
        changed(ANSWER, "children", 0, "subjects", 0, "namespace", to="other"),
    ],
)
def test_any_other_answer_is_none_so_that_nothing_is_given_or_taken(answer: Any) -> None:
    with pytest.raises(OpaUnavailable):
        decisions._read(answer, PARENT)


def test_a_binding_names_its_owner_and_its_end() -> None:
    made = bindings.made(DECIDED, PARENT)
    assert bindings.owner_uid(made) == "u-1"
    assert bindings.until(made) == 60 * SECOND
    assert bindings.is_as_made(made, made)
    for path, value in (
        (("subjects",), DECIDED["subjects"][:1]),
        (("roleRef", "name"), "edit"),
        (("metadata", "labels"), {}),
        (("metadata", "labels", bindings.TRANSIENT), "false"),
        (("metadata", "ownerReferences"), []),
        (("metadata", "annotations", bindings.UNTIL), "9999-01-01T00:00:00Z"),
    ):
        assert not bindings.is_as_made(changed(made, *path, to=value), made), path
    foreign = changed(made, "metadata", "annotations", "theirs", to="1")
    assert bindings.is_as_made(foreign, made)
    again = changed(made, "metadata", "annotations", bindings.UNTIL, to="1970-01-01T01:01:00+01:00")
    assert bindings.is_as_made(again, made), "the same instant"


def test_the_earlier_end_counts_and_none_is_an_end() -> None:
    assert bindings.end(60, 2) == bindings.end(2, None) == bindings.end(None, 2) == 2
    assert bindings.end(None, None) == bindings.end() == 0
    assert bindings.until(changed(DECIDED, "metadata", "annotations", to={})) is None
    assert bindings.instant("2026-11-27T06:00:00+24:00") is None
    assert bindings.instant(None) is None


def test_a_condition_says_why_and_keeps_its_time() -> None:
    before = {**VALID, "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    parent = {**PARENT, "status": {"conditions": [before]}}
    trouble = NotGranted("NameTaken", "there is another one")
    effective, failed = statuses.of(parent, [PENDING, VALID], trouble)
    assert (effective["status"], effective["reason"]) == ("False", "NameTaken")
    assert (failed["status"], failed["reason"]) == ("True", "NameTaken")
    assert failed["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    _, again = statuses.of(parent, [PENDING, VALID], None)
    assert again["status"] == "False"
    assert again["lastTransitionTime"] != "2020-01-01T00:00:00Z"


def versioned(value: dict[str, Any], version: int, **changes: Any) -> dict[str, Any]:
    """The object as of a version."""
    metadata = {**value["metadata"], "resourceVersion": str(version)}
    return {**value, "metadata": metadata, **changes}


def test_only_changes_that_matter_are_told() -> None:
    told: list[bindings.Key] = []
    state = State(told.append)
    parents, _, children, _ = state.sources
    assert parents.resource == KINDS[0].parents
    assert children.resource == KINDS[0].children
    key = ("shop", "night")
    state.replace(parents, [versioned(PARENT, 1)])
    assert told == [key]
    state.apply(parents, False, versioned(PARENT, 2, status={"conditions": [VALID]}))
    assert told == [key]
    parent = state.parent(key)
    assert parent is not None
    assert (parent.begin, parent.end) == (10 * SECOND, 60 * SECOND)
    state.apply(parents, False, versioned(PARENT, 3, approvedBy="lead"))
    state.apply(children, False, versioned(DECIDED, 4))  # it has no owner, so it is a stranger's
    assert told == [key] * 2
    assert state.child(key) is None
    made = made_of("c-1")
    state.apply(children, False, versioned(made, 6))
    state.apply(children, False, versioned(made, 6))  # what is known
    state.apply(children, False, versioned(made, 5, subjects=[]))  # what was before
    assert told == [key] * 3
    state.apply(children, False, versioned(changed(DECIDED, "metadata", "uid", to="c-1"), 7))
    assert state.child(key) is None, "its owner was taken away"
    state.apply(parents, True, versioned(PARENT, 8))
    assert told == [key] * 5


def made_of(uid: str) -> dict[str, Any]:
    """The binding that was decided, with this uid."""
    return changed(bindings.made(DECIDED, PARENT), "metadata", "uid", to=uid)


def test_only_the_child_that_was_deleted_is_forgotten() -> None:
    told: list[bindings.Key] = []
    state, key = State(told.append), ("shop", "night")
    state.apply(state.sources[2], False, versioned(made_of("c-2"), 2))
    state.forget(key, "c-1")
    assert state.child(key) is not None
    state.forget(key, "c-2")
    assert state.child(key) is None
    assert told == [key] * 2


def test_a_child_that_was_made_is_known_before_a_watch_tells_it() -> None:
    told: list[bindings.Key] = []
    state, key, made = State(told.append), ("shop", "night"), made_of("c-1")
    state.observe(key, versioned(made, 3))
    child = state.child(key)
    assert child is not None
    assert (child.uid, child.owner, child.end) == ("c-1", "u-1", 60 * SECOND)
    assert child.loss == "ServiceAccount robot, User alice lost the Role view"
    state.apply(state.sources[2], False, versioned(made, 3))  # the watch tells it, too
    assert told == [key]
    state.apply(state.sources[2], True, versioned(made, 4))
    state.observe(key, versioned(made, 3))  # the answer comes after what the watch told
    assert state.child(key) is None


def numbered(number: int, namespace: str = "shop", **changes: Any) -> dict[str, Any]:
    """One of many parents."""
    metadata = {**PARENT["metadata"], "name": f"n{number}", "namespace": namespace}
    return versioned({**PARENT, "metadata": {**metadata, "uid": f"u{number}"}}, 1, **changes)


def test_of_too_many_some_are_left_out_until_others_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlead.access.state.OF_NAMESPACE", 3)
    monkeypatch.setattr("fairlead.access.state.OF_ALL", 4)
    told: list[bindings.Key] = []
    state = State(told.append)
    parents, cluster, *_ = state.sources
    state.replace(parents, map(numbered, range(5)))
    assert state.count(parents=True) == 3
    assert state.crowded
    assert len({*told}) == 5
    assert [state.take_left_out(("shop", f"n{number}")) for number in range(5)] == [
        *(False, False, False),
        *(True, True),
    ]
    assert not state.take_left_out(("shop", "n3")), "it was taken"
    state.apply(cluster, False, numbered(7, ""))
    assert state.parent(("", "n7"))
    state.apply(parents, False, numbered(8, "other"))
    assert state.parent(("other", "n8")) is None, "there are too many in all"
    state.apply(parents, True, numbered(0))
    state.apply(parents, False, numbered(3))
    assert state.parent(("shop", "n3"))
    assert state.count(parents=True) == 4


def test_what_already_says_that_it_is_left_out_is_not_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlead.access.state.OF_NAMESPACE", 0)
    told: list[bindings.Key] = []
    state = State(told.append)
    condition = {"type": "effective", "status": "False", "reason": "TooMany"}
    state.replace(state.sources[0], [numbered(1, status={"conditions": [condition]})])
    assert (told, state.crowded) == ([], True)


def test_what_has_ended_and_says_so_is_not_kept() -> None:
    told: list[bindings.Key] = []
    state, key = State(told.append), ("shop", "n1")
    parents = state.sources[0]
    state.replace(parents, [numbered(1)])
    assert state.parent(key), "its status has to be written"
    condition = {"type": "effective", "status": "False", "reason": "Expired"}
    over = numbered(1, status={"conditions": [condition]})
    state.apply(parents, False, over)
    assert state.parent(key) is None
    state.replace(parents, [over])
    assert state.known() == set()
    later = {**over["spec"], "validUntil": "9999-01-01T00:00:00Z"}
    state.replace(parents, [{**over, "spec": later}])
    assert state.parent(key), "the clock was wrong"


def test_what_users_write_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    state, key = State(lambda _: None), ("shop", "night")
    subjects = [{"kind": "User", "name": "\U0001f600" * 500}] * 100
    large = changed(PARENT, "spec", "subjects", to=subjects)
    state.apply(state.sources[0], False, versioned(large, 1))
    made = changed(bindings.made(DECIDED, large), "subjects", to=subjects)
    state.apply(state.sources[2], False, versioned(changed(made, "metadata", "uid", to="c"), 1))
    kept = [key, *(state.parent(key) or ()), *(state.child(key) or ())]
    assert sum(sys.getsizeof(part) for part in kept) < state_module.KILOBYTES * 1024


def test_an_answer_about_one_parent_that_is_no_decision_delays_no_other() -> None:
    answers = [{**ANSWER, "children": [None]}, ANSWER]
    client = SimpleNamespace(sync=lambda _: answers.pop(0))
    several = decisions.Decisions(
        lambda: cast(OpaCredentials, SimpleNamespace(client=lambda: client))
    )
    with pytest.raises(OpaUnavailable):
        several.of(PARENT, None)
    assert several.of(PARENT, None).binding == DECIDED


def test_what_users_write_forges_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    waiting = trail.Trail(cast(Objects, None))
    forged = changed(PARENT, "spec", "reason", to="x\n2026-11-24 INFO shop/other: Granted")
    with caplog.at_level("INFO"):
        waiting.tell("Normal", "Granted", trail.described(forged), forged)
    assert "\n" not in caplog.messages[0]
    _, body = waiting._waiting.get_nowait()
    assert "\n" not in json.loads(body)["message"]


def test_events_that_wait_take_so_many_bytes_and_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trail, "MOST", 10_000)
    waiting = trail.Trail(cast(Objects, None))
    large = changed(PARENT, "spec", "reason", to="\U0001f600" * 1_000)
    for _ in range(10):
        waiting.tell("Normal", "Granted", trail.described(large), large)
    sizes = []
    while not waiting._waiting.empty():
        sizes.append(len(waiting._waiting.get()[1]))
    assert 1 < len(sizes) < 10
    assert sum(sizes) <= 10_000
    assert "only in this log" in caplog.messages[-1]


def test_it_is_complete_once_everything_was_listed() -> None:
    state = State(lambda _: None)
    for source in state.sources:
        assert not state.complete
        state.replace(source, [])
    assert state.complete
    assert state.known() == set()

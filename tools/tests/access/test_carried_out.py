"""What the controller makes of answers and of bindings, without a cluster."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.access import bindings, decisions, statuses, trail
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
    assert bindings.end(made, PARENT) == bindings.end(made, None) == 60 * SECOND
    assert bindings.is_as_made(made, made)
    for path, value in (
        (("subjects",), DECIDED["subjects"][:1]),
        (("roleRef", "name"), "edit"),
        (("metadata", "labels"), {}),
        (("metadata", "ownerReferences"), []),
        (("metadata", "annotations", bindings.UNTIL), "9999-01-01T00:00:00Z"),
    ):
        assert not bindings.is_as_made(changed(made, *path, to=value), made), path
    foreign = changed(made, "metadata", "annotations", "theirs", to="1")
    assert bindings.is_as_made(foreign, made)


def test_the_earlier_end_counts_and_none_is_an_end() -> None:
    made = bindings.made(DECIDED, PARENT)
    later = changed(made, "metadata", "annotations", bindings.UNTIL, to="9999-01-01T00:00:00Z")
    assert bindings.end(later, PARENT) == 60 * SECOND
    earlier = changed(made, "metadata", "annotations", bindings.UNTIL, to="1970-01-01T00:00:02Z")
    assert bindings.end(earlier, PARENT) == 2 * SECOND
    nothing = changed(made, "metadata", "annotations", to={})
    assert bindings.end(nothing, None) == 0


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
    assert (state.parent(key) or {})["status"] == {"conditions": [VALID]}
    state.apply(parents, False, versioned(PARENT, 3, approvedBy="lead"))
    state.apply(children, False, versioned(DECIDED, 4))  # it has no owner, so it is a stranger's
    assert told == [key] * 2
    assert state.child(key) is None
    made = bindings.made(DECIDED, PARENT)
    state.apply(children, False, versioned(made, 6))
    state.apply(children, False, versioned(made, 6))  # what is known
    state.apply(children, False, versioned(made, 5, subjects=[]))  # what was before
    assert told == [key] * 3
    state.apply(children, False, versioned(DECIDED, 7))  # its owner was taken away
    assert state.child(key) is None
    state.apply(parents, True, versioned(PARENT, 8))
    assert told == [key] * 5


def test_only_the_child_that_was_deleted_is_forgotten() -> None:
    told: list[bindings.Key] = []
    state, key = State(told.append), ("shop", "night")
    made = bindings.made(changed(DECIDED, "metadata", "uid", to="c-1"), PARENT)
    again = changed(made, "metadata", "uid", to="c-2")
    state.apply(state.sources[2], False, versioned(again, 2))
    state.forget(key, made)
    assert state.child(key) is not None
    state.forget(key, again)
    assert state.child(key) is None
    assert told == [key] * 2


def test_a_child_that_was_made_is_known_before_a_watch_tells_it() -> None:
    told: list[bindings.Key] = []
    state, key = State(told.append), ("shop", "night")
    made = bindings.made(changed(DECIDED, "metadata", "uid", to="c-1"), PARENT)
    state.observe(key, versioned(made, 3))
    assert (state.child(key) or {})["metadata"]["uid"] == "c-1"
    state.apply(state.sources[2], False, versioned(made, 3))  # the watch tells it, too
    assert told == [key]
    state.apply(state.sources[2], True, versioned(made, 4))
    state.observe(key, versioned(made, 3))  # the answer comes after what the watch told
    assert state.child(key) is None


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
    assert "\n" not in waiting._waiting.get_nowait()["message"]


def test_it_is_complete_once_everything_was_listed() -> None:
    state = State(lambda _: None)
    for source in state.sources:
        assert not state.complete
        state.replace(source, [])
    assert state.complete
    assert state.known() == set()

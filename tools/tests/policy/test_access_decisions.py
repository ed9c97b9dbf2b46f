"""Transient access decides as its contract says at any time, and never answers in part."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from typing import Any

import access_oracle
import pytest
from access_requests import MODULES, Question, answers, brief, parts, request
from examples import collected
from hypothesis import strategies as st
from odd_values import odd, paths_of, replaced

from fairlead.common.errors import FairleadError
from fairlead.opa import cli

FROM, UNTIL = 1_795_255_200 * 10**9, 1_795_258_800 * 10**9
"""The window of `request`, in nanoseconds since 1970."""
INSIDE = FROM + 10**9
PARENT = ("parent", "spec")
RBAC = "rbac.authorization.k8s.io"
ALICE = {"apiGroup": RBAC, "kind": "User", "name": "alice"}


moments = st.sampled_from([FROM, UNTIL, FROM - 10**15]).flatmap(
    lambda at: st.sampled_from([-1, 0, 1, 10**9, -(10**9), 61 * 10**9]).map(lambda by: at + by)
)
times = st.sampled_from(
    [
        *("2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z", "2026-11-21T10:00:00.000000001Z"),
        *("2026-11-21T12:00:00+02:00", "2026-11-21T10:00:00.0000000005Z", "2026-11-21t11:00:00z"),
        *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "2263-01-01T00:00:00Z"),
    ]
)
subjects = st.sampled_from(
    [
        {"kind": "User", "name": "alice"},
        ALICE,
        {"kind": "Group", "name": "alice", "apiGroup": ""},
        {"kind": "ServiceAccount", "name": "robot"},
        {"kind": "ServiceAccount", "name": "robot", "namespace": "shop"},
        {"kind": "ServiceAccount", "name": "robot", "namespace": "other"},
    ]
)
roles = st.sampled_from([{"kind": kind, "name": "view"} for kind in ("ClusterRole", "Role")])
lists = st.lists(subjects, min_size=1, max_size=4)
children = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["RoleBinding", "RoleBinding", "ClusterRoleBinding"]),
        "metadata": st.sampled_from(["night", "night", "other"]).map(
            lambda name: {"name": name, "namespace": "shop"}
        ),
        "roleRef": roles,
        "subjects": lists | st.none(),
    }
)
conditions = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["effective", "failed", "other"]),
            "status": st.sampled_from(["True", "False", "Unknown"]),
            "lastTransitionTime": st.just("2026-11-20T00:00:00Z"),
        }
    ),
    max_size=3,
)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """A request that API servers could send, with children and a status of any kind."""
    written = draw(
        st.fixed_dictionaries(
            {"validFrom": times, "validUntil": times, "roleRef": roles, "subjects": lists},
            optional={"needsApproval": st.booleans()},
        )
    )
    asked = request(**written)
    if draw(st.booleans()):
        # The published example's parents have the fields at their top.
        parent = {key: value for key, value in asked["parent"].items() if key != "spec"}
        asked["parent"] = {**parent, "apiVersion": "example.com/v1", **written}
    found = draw(st.lists(children, max_size=2))
    asked["children"] = {
        f"RoleBinding.{RBAC}/v1": {f"{number}": child for number, child in enumerate(found)}
    }
    asked["parent"]["status"] = {"conditions": draw(conditions)}
    asked["parent"]["approvedBy"] = draw(st.sampled_from(["", "boss"]))
    asked["finalizing"] = draw(st.sampled_from([False, False, False, True]))
    return {"request": asked, "now": draw(moments)}


def test_it_decides_as_computed_by_other_means() -> None:
    asked = collected(questions(), 500)
    expected = [access_oracle.answer(question["request"], question["now"]) for question in asked]
    assert 3 < sum(bool(answer["children"]) for answer in expected) < len(asked) - 20
    for question, answer, computed in zip(asked, answers(asked), expected, strict=True):
        assert brief(answer) == computed, question


odd_values = odd | st.sampled_from(
    [
        *("night", "2026-11-21T09:00:00Z", "Role", "Pod", {"kind": "User"}, [ALICE, 5], [[]]),
        *({"conditions": [None, {"type": "effective", "status": "True"}]}, "x" * 10_000),
    ]
)
base = request()
base["children"] = {"a": {"b": {"kind": "RoleBinding", "metadata": {"name": "night"}}}}
base["parent"]["status"] = {"conditions": [{"type": "effective", "status": "True"}]}
changes = st.lists(st.tuples(st.sampled_from(paths_of(base)), odd_values), min_size=1, max_size=3)


def changed(edits: list[tuple[tuple[Any, ...], Any]]) -> Question:
    asked: Any = base
    for path, value in edits:
        asked = replaced(asked, path, value)
    return {"request": asked, "now": INSIDE}


def test_whatever_it_is_sent_it_answers_in_full_or_says_why_not() -> None:
    asked = collected(changes.map(changed), 1000)
    answered = 0
    for question, part in zip(asked, parts(asked), strict=True):
        if "unreadable" in part:
            assert part.keys() == {"unreadable"}, question
            continue
        answered += 1
        assert part.keys() == {"children", "status", "resync_after_seconds"}, question
        effective, failed = part["status"]["conditions"]
        for condition in (effective, failed):
            assert condition["status"] in ("True", "False")
            assert condition["reason"]
            assert len(condition["message"]) < 4000
            assert access_oracle.instant(condition["lastTransitionTime"]) is not None
        assert not (part["children"] and failed["status"] == "True"), question
        assert 0 <= part["resync_after_seconds"] <= 3600
    assert 100 < answered < len(asked)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no time": ({"validFrom": None}, "spec.validFrom is missing: write a time such as"),
    "no date": (
        {"validFrom": "tomorrow"},
        'spec.validFrom is "tomorrow", which is not a time of RFC',
    ),
    "a number": ({"validUntil": 1795258800}, "spec.validUntil is 1795258800, which is not a time"),
    "no zone": ({"validUntil": "2026-11-21T11:00:00"}, "spec.validUntil is"),
    "no such day": ({"validFrom": "2026-02-29T00:00:00Z"}, "is not a time of RFC 3339"),
    "a leap second": ({"validFrom": "2016-12-31T23:59:60Z"}, "a leap second: write the second"),
    "the end first": ({"validUntil": "2026-11-21T09:59:59Z"}, "access would end before it begins"),
    "no window": ({"validUntil": "2026-11-21T12:00:00+02:00"}, "which is not after spec.validFrom"),
    "no role": (
        {"roleRef": None},
        "spec.roleRef is not a role: it has a kind, one of ClusterRole, Role",
    ),
    "a role's kind": ({"roleRef": {"kind": "Group", "name": "a"}}, "spec.roleRef is not a role"),
    "a role's path": ({"roleRef": {"kind": "Role", "name": "../a"}}, "spec.roleRef is not a role"),
    "a role's group": (
        {"roleRef": {"kind": "Role", "name": "a", "apiGroup": "b"}},
        "is not a role",
    ),
    "no subjects": ({"subjects": []}, "spec.subjects is not a list with at least one subject"),
    "subjects": ({"subjects": {"kind": "User"}}, "spec.subjects is not a list"),
    "a robot": (
        {"subjects": [ALICE, {"kind": "Robot", "name": "r2"}]},
        'subjects: {"kind":"Robot"',
    ),
    "no name": (
        {"subjects": [{"kind": "User", "name": ""}]},
        "is not a subject: it is a User or Group",
    ),
    "an account": ({"subjects": [{"kind": "ServiceAccount", "name": "A_b"}]}, "is not a subject"),
    "many": ({"subjects": [5] * 100_000}, "spec.subjects: 5 is not a subject"),
    "long": ({"subjects": [{"kind": "x" * 1_000_000}]}, "xxx... is not a subject"),
}


def test_mistakes_are_a_condition_and_give_no_access() -> None:
    asked = [{"request": request(**spec), "now": INSIDE} for spec, _ in MISTAKES.values()]
    for (name, (_, message)), answer in zip(MISTAKES.items(), answers(asked), strict=True):
        effective, failed = answer["status"]["conditions"]
        assert (failed["status"], failed["reason"]) == ("True", "Invalid"), name
        assert message in failed["message"], (name, failed["message"])
        assert len(failed["message"]) < 1000
        assert (effective["status"], effective["reason"]) == ("False", "Invalid")
        assert (answer["children"], answer["resyncAfterSeconds"]) == ([], 0)


@pytest.mark.parametrize("name", ["validFrom", "validUntil", "roleRef", "subjects"])
def test_a_field_that_is_missing_is_as_wrong_as_null(name: str) -> None:
    without = request()
    del without["parent"]["spec"][name]
    asked = [{"request": each, "now": INSIDE} for each in (without, request(**{name: None}))]
    missing, null = (answer["status"]["conditions"][1] for answer in answers(asked))
    assert missing == null
    assert f"spec.{name} is " in missing["message"]


def test_a_parent_without_a_spec_names_its_own_fields() -> None:
    bare = {"kind": "TransientRoleBinding", "metadata": {"name": "night", "namespace": "shop"}}
    (answer,) = answers([{"request": {"parent": bare}, "now": INSIDE}])
    failed = answer["status"]["conditions"][1]["message"].split("; ")
    assert [sentence.split(" is ")[0] for sentence in failed] == [
        "roleRef",
        "subjects",
        "validFrom",
        "validUntil",
    ]


def test_what_users_wrote_wrongly_still_ends_what_there_is() -> None:
    asked = request(subjects="nobody")
    asked["children"] = {"a": {"b": {"metadata": {"name": "night"}}}}
    (answer,) = answers([{"request": asked, "now": INSIDE}])
    effective, failed = answer["status"]["conditions"]
    assert (effective["status"], effective["reason"]) == ("True", "Ending")
    assert (answer["children"], answer["resyncAfterSeconds"]) == ([], 1)
    assert failed["status"] == "True"


def test_a_cluster_role_binding_takes_a_cluster_role_and_accounts_with_a_namespace() -> None:
    asked = []
    for spec in (
        {"roleRef": {"kind": "Role", "name": "view"}},
        {"subjects": [{"kind": "ServiceAccount", "name": "robot"}]},
        {"subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "shop"}]},
    ):
        question = request(**spec)
        question["parent"]["kind"] = "TransientClusterRoleBinding"
        del question["parent"]["metadata"]["namespace"]
        asked.append({"request": question, "now": INSIDE})
    role, account, good = answers(asked)
    assert "it has a kind, one of ClusterRole, and" in role["status"]["conditions"][1]["message"]
    assert "is not a subject" in account["status"]["conditions"][1]["message"]
    (binding,) = good["children"]
    assert (binding["kind"], binding["metadata"]) == (
        "ClusterRoleBinding",
        {"name": "night", "labels": {"controller-uid": "u-1"}},
    )


UNREADABLE = {
    "input.parent is not an object": [],
    'the kind "Deployment": only TransientRoleBinding and': {"kind": "Deployment"},
    "input.parent.metadata.name is not a name": {"kind": "TransientRoleBinding", "metadata": {}},
    "metadata.name is not a name": {"kind": "TransientRoleBinding", **request()["parent"]["spec"]},
    "the kind null:": {"metadata": {"name": "night"}},
    "input.parent.metadata.namespace is not a name": {
        "kind": "TransientRoleBinding",
        "metadata": {"name": "night", "namespace": 5},
    },
}


@pytest.mark.parametrize(("message", "parent"), UNREADABLE.items())
def test_a_request_that_cannot_be_read_is_an_error_of_opa(message: str, parent: Any) -> None:
    """Metacontroller keeps children then. It deletes them if an answer lacks them."""
    with pytest.raises(FairleadError, match="produced conflicting values") as why:
        answers([{"request": {"parent": parent}, "now": INSIDE}])
    assert message.replace('"', '\\"') in str(why.value)


@pytest.mark.parametrize(
    "missing", sorted(key for key in MODULES if key.startswith("lib.transient_access."))
)
def test_while_a_module_is_missing_opa_answers_with_an_error(missing: str) -> None:
    """OPA loads one module at a time, and rejects those that lack a function."""
    modules = {
        key: text
        for key, text in MODULES.items()
        if key.startswith("access.") or (key.startswith("lib.") and key < missing)
    }
    with pytest.raises(FairleadError, match="so that OPA answers with an error"):
        cli.evaluate("data.controller", modules=modules, data={}, input=request())


def test_the_order_of_subjects_and_their_repetition_change_no_byte() -> None:
    robot = {"kind": "ServiceAccount", "name": "robot"}
    orders = [[ALICE, robot], [robot, ALICE], [robot, {"kind": "User", "name": "alice"}, ALICE]]
    asked = [{"request": request(subjects=order), "now": INSIDE} for order in orders]
    first, *others = (json.dumps(answer["children"]) for answer in answers(asked))
    assert others == [first, first]


def test_a_service_account_without_a_namespace_is_of_the_bindings_namespace() -> None:
    robot = {"kind": "ServiceAccount", "name": "robot"}
    (answer,) = answers([{"request": request(subjects=[robot]), "now": INSIDE}])
    (binding,) = answer["children"]
    assert binding["subjects"] == [{**robot, "namespace": "shop"}]


@pytest.mark.parametrize(
    ("controller", "spec", "labels"),
    [
        ({"generateSelector": True}, {}, {"controller-uid": "u-1"}),
        ({}, {}, {"controller-uid": "u-1"}),
        ({"generateSelector": False}, {"selector": {"matchLabels": {"a": "b"}}}, {"a": "b"}),
        ({"generateSelector": False}, {}, None),
        ({"generateSelector": False}, {"selector": {"matchLabels": "a"}}, None),
    ],
)
def test_children_have_the_labels_by_which_they_are_found(
    controller: dict[str, Any], spec: dict[str, Any], labels: dict[str, str] | None
) -> None:
    asked = {**request(**spec), "controller": {"spec": controller}}
    (answer,) = answers([{"request": asked, "now": INSIDE}])
    assert answer["children"][0]["metadata"].get("labels") == labels


def test_the_first_resource_of_children_says_their_version() -> None:
    asked = request()
    asked["controller"]["spec"]["childResources"][0]["apiVersion"] = f"{RBAC}/v2"
    without = {key: value for key, value in request().items() if key != "controller"}
    first, second = answers([{"request": each, "now": INSIDE} for each in (asked, without)])
    assert first["children"][0]["apiVersion"] == f"{RBAC}/v2"
    assert second["children"][0]["apiVersion"] == f"{RBAC}/v1"


def test_a_child_that_does_not_come_is_asked_for_ever_more_rarely() -> None:
    asked = [{"request": request(), "now": FROM + seconds * 10**9} for seconds in (0, 5, 300, 3599)]
    assert [answer["resyncAfterSeconds"] for answer in answers(asked)] == [1, 5, 60, 1]


def test_a_parent_that_is_deleted_gives_no_access_and_goes_when_its_child_has_gone() -> None:
    (granted,) = answers([{"request": request(), "now": INSIDE}])
    there = {f"RoleBinding.{RBAC}/v1": {"night": granted["children"][0]}}
    finalizing = {**request(), "finalizing": True}
    deleted = copy.deepcopy(request())
    deleted["parent"]["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    asked = [
        {**finalizing, "children": there},
        finalizing,
        {**deleted, "children": there},
    ]
    still, gone, unasked = answers([{"request": each, "now": INSIDE} for each in asked])
    assert (still["finalized"], gone["finalized"], "finalized" in unasked) == (False, True, False)
    assert [each["children"] for each in (still, gone, unasked)] == [[], [], []]
    reasons = [each["status"]["conditions"][0]["reason"] for each in (still, gone, unasked)]
    assert reasons == ["Ending", "Deleted", "Ending"]


def test_ten_megabytes_of_subjects_are_decided() -> None:
    many = [{"kind": "User", "name": f"user-{number:060}"} for number in range(100_000)]
    (answer,) = answers([{"request": request(subjects=many), "now": INSIDE}])
    assert len(answer["children"][0]["subjects"]) == 100_000


def test_a_transition_is_waited_for_to_the_nanosecond() -> None:
    asked = request(validFrom="2026-11-21T10:00:00.0000000001Z")
    before, after = answers([{"request": asked, "now": FROM + by} for by in (0, 1)])
    assert (before["children"], Fraction(str(before["resyncAfterSeconds"]))) == (
        [],
        Fraction(1, 10**9),
    )
    assert len(after["children"]) == 1

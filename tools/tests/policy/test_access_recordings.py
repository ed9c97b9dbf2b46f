"""Transient access answers what Metacontroller really sent, in all situations of its recordings."""

from __future__ import annotations

import json
from typing import Any

import access_oracle
from access_requests import Question, answers, brief

from fairlead.common import paths

_FILE = paths.root() / "testdata" / "access" / "metacontroller.jsonl"
RECORDINGS: list[dict[str, Any]] = [json.loads(line) for line in _FILE.read_text().splitlines()]
_PREFIX = "transient-"


def with_names_of_ours(recording: dict[str, Any]) -> Question:
    """The request as it is if children have the name of their parent. The hook of the recordings
    gave them a prefix.
    """
    children = {
        group: {
            name.removeprefix(_PREFIX): {
                **child,
                "metadata": {
                    **child["metadata"],
                    "name": child["metadata"]["name"].removeprefix(_PREFIX),
                },
            }
            for name, child in named.items()
        }
        for group, named in recording["request"]["children"].items()
    }
    return {"now": recording["now"], "request": {**recording["request"], "children": children}}


def test_each_recorded_request_gets_the_answer_of_the_contract() -> None:
    questions = [with_names_of_ours(recording) for recording in RECORDINGS]
    for recording, question, answer in zip(RECORDINGS, questions, answers(questions), strict=True):
        assert brief(answer) == access_oracle.answer(question["request"], question["now"]), (
            recording["situation"]
        )
        assert answer.keys() - {"finalized"} == {"status", "children", "resyncAfterSeconds"}
        assert ("finalized" in answer) == question["request"]["finalizing"]


def test_a_request_with_the_names_of_the_recordings_is_answered_too() -> None:
    asked: list[Question] = [
        {"now": each["now"], "request": each["request"]} for each in RECORDINGS
    ]
    for question, answer in zip(asked, answers(asked), strict=True):
        assert brief(answer) == access_oracle.answer(question["request"], question["now"])


def test_a_whole_life_ends_without_a_further_question() -> None:
    """Each answer becomes the next request's status and children, as Metacontroller does it."""
    (first, *_) = RECORDINGS
    request = first["request"]
    now = first["now"]
    seen = []
    for _ in range(20):
        question = {"now": now, "request": request}
        (answer,) = answers([question])
        effective, _failed = answer["status"]["conditions"]
        seen.append((effective["status"], effective["reason"]))
        parent = {**request["parent"], "status": answer["status"]}
        observed = {child["metadata"]["name"]: child for child in answer["children"]}
        key = "RoleBinding.rbac.authorization.k8s.io/v1"
        changed = {**request, "parent": parent, "children": {key: observed}}
        if changed == request:
            if answer["resyncAfterSeconds"] == 0:
                break
            now += round(answer["resyncAfterSeconds"] * 10**9)
        request = changed
    assert list(dict.fromkeys(seen)) == [
        ("False", "Pending"),
        ("False", "NotObserved"),
        ("True", "Granted"),
        ("True", "Ending"),
        ("False", "Expired"),
    ]

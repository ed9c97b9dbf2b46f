"""What the controller answers about objects that are to be stored."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from fairlead.common.errors import FairleadError
from fairlead.controller import reviews
from fairlead.controller.reviews import Reviews
from fairlead.kube import clients
from fairlead.kube.own_kinds import NAME, VERSION

REGO = """package {0}

decision := {{"deny": set(), "patch": [], "warn": set()}}
"""
INTENT = {"requests": [{"kinds": ["v1/Pod"], "operations": ["CREATE"]}]}
Object = dict[str, Any]


def policy(name: str, rego: str | None = None, **spec: Any) -> Object:
    text = rego if rego is not None else REGO.format(name.replace("-", "_"))
    written = {"rego": text, "intent": INTENT, **spec}
    return {"apiVersion": VERSION, "kind": "Policy", "metadata": {"name": name}, "spec": written}


def library(name: str, rego: str) -> Object:
    return {**policy(name), "spec": {"rego": rego}}


def fairlead(**spec: Any) -> Object:
    return {"apiVersion": VERSION, "kind": "Fairlead", "metadata": {"name": NAME}, "spec": spec}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "_WITHIN", 600.0)  # the machine may be busy


class Stored:
    """The objects that an API server has."""

    def __init__(self, fairlead: Object | None, *policies: Object) -> None:
        self.fairlead, self.policies = fairlead, list(policies)
        self.error: FairleadError | None = None

    def get(self, *_: str) -> Object | None:
        if self.error:
            raise self.error
        return self.fairlead

    def list(self, *_: Any) -> list[Object]:
        return self.policies

    def renew(self) -> None:
        """Nothing to connect to."""


def review(value: Any, old: Any = None, operation: str = "CREATE") -> bytes:
    request = {"uid": "42", "operation": operation, "object": value, "oldObject": old}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


def answer(stored: Stored, value: Object, old: Object | None = None) -> Object:
    response = Reviews(cast(clients.Objects, stored)).answer(review(value, old))["response"]
    assert response.pop("uid") == "42"
    return dict(response)


def refusal(stored: Stored, value: Object) -> str:
    response = answer(stored, value)
    assert (response["allowed"], response["status"]["code"]) == (False, 422)
    return str(response["status"]["message"])


UNSAFE = REGO.format("mine") + "\nx := y\n"


def test_an_object_that_is_right_may_be_stored() -> None:
    stored = Stored(fairlead(), policy("other"))
    assert answer(stored, policy("mine")) == {"allowed": True}
    assert answer(stored, policy("other", enforcement="warn")) == {"allowed": True}, "a change"
    assert answer(stored, fairlead(contact="#us")) == {"allowed": True}
    assert answer(Stored(None), policy("mine")) == {"allowed": True}, "before there is a Fairlead"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (policy("mine", "package mine\n\nx := {\n"), "spec.rego:3: rego_parse_error"),
        (policy("mine", UNSAFE), "Policy mine: spec.rego:5: rego_unsafe_var_error: var y is"),
        (policy("mine", REGO.format("other")), "package other"),
        (policy("mine", parameters={"x": 1}), "Policy mine: spec.parameters: unknown key 'x'"),
        (policy("mine", instances={"third": {}}), "instances.third: Fairlead or another"),
        (policy("node-pool"), "the policies node_pool are there already"),
        (fairlead(defaultPool="a", pools={"b": {}}), "defaultPool 'a' is not one of pools: b"),
        (fairlead(intents={"third": {"intent": "nothing"}}), "Fairlead fairlead: spec: intents"),
    ],
)
def test_one_that_is_wrong_is_refused_with_its_place(wrong: Object, message: str) -> None:
    stored = Stored(fairlead(), policy("another", instances={"third": {}}))
    assert message in refusal(stored, wrong)


def test_mistakes_of_others_are_not_those_of_the_object() -> None:
    broken = policy("broken", "package broken\n\nx := {\n")
    stored = Stored(fairlead(nonsense=1), broken)
    assert answer(Stored(fairlead(), broken), policy("mine")) == {"allowed": True}
    assert "Policy mine: spec.rego:5: " in refusal(
        Stored(fairlead(), broken), policy("mine", UNSAFE)
    )
    assert answer(Stored(fairlead(), broken), fairlead(contact="#us")) == {"allowed": True}
    response = answer(stored, policy("mine"))
    assert response["allowed"]
    assert "could not be checked before it was stored: Fairlead" in response["warnings"][0]


def test_what_needs_a_function_of_another_policy_waits_for_it() -> None:
    user = policy("mine", REGO.format("mine") + "\nx := data.team_lib.f(1)\n")
    response = answer(Stored(fairlead()), user)
    assert response["allowed"]
    assert response["warnings"] == [
        "Policy mine waits for another Policy: spec.rego:5: rego_type_error: undefined function "
        "data.team_lib.f"
    ]
    lib = library("team-lib", "package team_lib\n\nf(x) := x\n")
    assert answer(Stored(fairlead(), lib), user) == {"allowed": True}
    assert answer(Stored(fairlead(), user), lib) == {"allowed": True}
    changed = library("team-lib", "package team_lib\n\ng(x) := x\n")
    assert answer(Stored(fairlead(), lib, user), changed) == {"allowed": True}, "mine is at fault"


def test_metadata_of_a_wrong_object_can_be_changed() -> None:
    wrong = policy("mine", UNSAFE)
    assert answer(Stored(fairlead(), wrong), wrong, wrong) == {"allowed": True}


def test_a_check_that_takes_too_long_is_no_reason_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reviews, "_WITHIN", 0.0)
    response = answer(Stored(fairlead()), policy("mine", UNSAFE))
    assert response["allowed"]
    assert "opa check did not end within" in response["warnings"][0]


def test_an_object_beyond_the_limits_is_stored_unchecked() -> None:
    nested: Any = 1
    for _ in range(900):
        nested = {"a": nested}
    for parameters, reason in (
        ({f"k{number}": 1 for number in range(10_000)}, "it has more than 10,000 values"),
        (nested, "maximum recursion depth"),
    ):
        response = answer(Stored(fairlead()), policy("mine", parameters=parameters))
        assert response["allowed"]
        assert f"Policy mine could not be checked before it was stored: {reason}" in str(response)


def test_of_many_mistakes_the_first_are_told() -> None:
    unknown: dict[str, Any] = {f"k{number}": 1 for number in range(99)}
    message = refusal(Stored(fairlead()), policy("mine", **unknown))
    assert message.count("unknown key") == 10
    assert message.endswith("; and 89 more")


def test_an_api_server_that_cannot_be_asked_is_no_reason_to_refuse() -> None:
    stored = Stored(fairlead())
    stored.error = FairleadError("connection refused")
    response = answer(stored, policy("mine"))
    assert response["allowed"]
    assert "connection refused" in response["warnings"][0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"a":' * 100_000,
        review(None),
        review({"kind": "Pod", "metadata": {"name": "x"}}),
        review({"kind": "Policy", "metadata": {}}),
    ],
)
def test_what_is_no_review_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"not an AdmissionReview|nested|Expecting"):
        Reviews(cast(clients.Objects, Stored(None))).answer(body)
